// SPDX-License-Identifier: Apache-2.0
// Denoising of traces: a Walsh-Hadamard transform of each, small coefficients shrunk to nothing, and the transform back.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK_CUDA(call)                                                                  \
    do {                                                                                  \
        cudaError_t err_ = call;                                                          \
        if (err_ != cudaSuccess) {                                                        \
            fprintf(stderr, "CUDA error at %d: %s\n", __LINE__, cudaGetErrorString(err_)); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

// A block for a trace of n samples, n a power of two.
__global__ void walsh_hadamard(const float* in, float* out, int n, float scale) {
    extern __shared__ float trace[];
    size_t base = (size_t)blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) trace[i] = in[base + i];
    __syncthreads();

    for (int h = 1; h < n; h *= 2) {
        for (int k = threadIdx.x; k < n / 2; k += blockDim.x) {
            int i = k / h * 2 * h + k % h;
            float a = trace[i];
            float b = trace[i + h];
            trace[i] = a + b;
            trace[i + h] = a - b;
        }
        __syncthreads();
    }

    for (int i = threadIdx.x; i < n; i += blockDim.x) out[base + i] = scale * trace[i];
}

__global__ void soft_threshold(float* x, size_t n, float limit) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float size = fabsf(x[i]) - limit;
    x[i] = size > 0.0f ? copysignf(size, x[i]) : 0.0f;
}

static void transform(std::vector<double>& x) {
    for (size_t h = 1; h < x.size(); h *= 2)
        for (size_t i = 0; i < x.size(); i++)
            if (!(i & h)) {
                double a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
}

int main(int argc, char** argv) {
    int traces = argc > 1 ? atoi(argv[1]) : 40000;
    int n = argc > 2 ? atoi(argv[2]) : 1024;
    int block = argc > 3 ? atoi(argv[3]) : 256;
    int passes = 8;
    float limit = 0.6f;
    if (n < 2 || (n & (n - 1)) || n > 8192) {
        fprintf(stderr, "the length of a trace must be a power of two, 8192 at most\n");
        return 1;
    }

    // a few square waves, and noise
    size_t size = (size_t)traces * n;
    std::vector<float> x(size), y(size);
    unsigned s = 8;
    for (int t = 0; t < traces; t++)
        for (int i = 0; i < n; i++) {
            s = s * 1664525u + 1013904223u;
            float wave = (i >> (2 + t % 7) & 1 ? 1.0f : -1.0f) + (i >> (4 + t % 3) & 1 ? 0.5f : -0.5f);
            x[(size_t)t * n + i] = wave + (s >> 8) * (0.8f / (1 << 24)) - 0.4f;
        }

    float *d_x, *d_y;
    CHECK_CUDA(cudaMalloc(&d_x, size * sizeof(float)));
    CHECK_CUDA(cudaMalloc(&d_y, size * sizeof(float)));

    cudaEvent_t start, stop;
    CHECK_CUDA(cudaEventCreate(&start));
    CHECK_CUDA(cudaEventCreate(&stop));
    CHECK_CUDA(cudaMemcpy(d_x, x.data(), size * sizeof(float), cudaMemcpyHostToDevice));
    CHECK_CUDA(cudaEventRecord(start));
    float scale = 1.0f / sqrtf((float)n);
    for (int pass = 0; pass < passes; pass++) {
        walsh_hadamard<<<traces, block, n * sizeof(float)>>>(d_x, d_y, n, scale);
        CHECK_CUDA(cudaGetLastError());
        soft_threshold<<<(unsigned)((size + 255) / 256), 256>>>(d_y, size, limit);
        CHECK_CUDA(cudaGetLastError());
        walsh_hadamard<<<traces, block, n * sizeof(float)>>>(d_y, d_x, n, scale);
        CHECK_CUDA(cudaGetLastError());
    }
    CHECK_CUDA(cudaEventRecord(stop));
    CHECK_CUDA(cudaMemcpy(y.data(), d_x, size * sizeof(float), cudaMemcpyDeviceToHost));
    float ms = 0;
    CHECK_CUDA(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "%.3f ms\n", ms);

    double worst = 0;
    std::vector<double> row(n);
    for (int t = 0; t < traces; t += 1 + traces / 50) {
        for (int i = 0; i < n; i++) row[i] = x[(size_t)t * n + i];
        for (int pass = 0; pass < passes; pass++) {
            transform(row);
            for (double& v : row) {
                double amount = std::fabs(v) * scale - limit;
                v = amount > 0 ? std::copysign(amount, v) : 0;
            }
            transform(row);
            for (double& v : row) v *= scale;
        }
        for (int i = 0; i < n; i++) worst = std::fmax(worst, std::fabs(row[i] - y[(size_t)t * n + i]));
    }
    CHECK_CUDA(cudaFree(d_x));
    CHECK_CUDA(cudaFree(d_y));
    bool ok = worst < 1e-4;
    printf("first %.5f, middle %.5f, last %.5f\n%s\n", y[0], y[size / 2], y[size - 1], ok ? "ok" : "wrong");
    return ok ? 0 : 1;
}
