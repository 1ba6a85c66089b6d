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

constexpr int kLength = 1024;  // of a trace that a warp keeps in registers

// A trace of n samples, n a power of two: of 1024 a block of one warp, 32 samples a lane. Of a sample's number the lower two
// bits and the upper three are a lane's own, the five between them are the lane.
__global__ void walsh_hadamard(const float* __restrict__ in, float* __restrict__ out, int n, float scale) {
    extern __shared__ float trace[];
    const size_t base = (size_t)blockIdx.x * n;

    if (n == kLength && blockDim.x == 32) {
        const int lane = threadIdx.x;
        float v[8][4];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float4 four = __ldcs((const float4*)(in + base) + 32 * j + lane);
            const float a = four.x + four.y, b = four.x - four.y, c = four.z + four.w, d = four.z - four.w;
            v[j][0] = a + c;
            v[j][1] = b + d;
            v[j][2] = a - c;
            v[j][3] = b - d;
        }
#pragma unroll
        for (int by = 1; by < 32; by *= 2) {
            const float sign = lane & by ? -1.0f : 1.0f;
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int k = 0; k < 4; k++) v[j][k] = sign * v[j][k] + __shfl_xor_sync(~0u, v[j][k], by);
        }
#pragma unroll
        for (int h = 1; h < 8; h *= 2)
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (!(j & h))
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const float a = v[j][k], b = v[j + h][k];
                        v[j][k] = a + b;
                        v[j + h][k] = a - b;
                    }
#pragma unroll
        for (int j = 0; j < 8; j++)
            __stcs((float4*)(out + base) + 32 * j + lane,
                   make_float4(scale * v[j][0], scale * v[j][1], scale * v[j][2], scale * v[j][3]));
        return;
    }

    for (int i = threadIdx.x; i < n; i += blockDim.x) trace[i] = in[base + i];
    __syncthreads();
    for (int h = 1; h < n; h *= 2) {
        for (int k = threadIdx.x; k < n / 2; k += blockDim.x) {
            const int i = (k & ~(h - 1)) + k;
            const float a = trace[i], b = trace[i + h];
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
    int passes = 8;
    float limit = 0.6f;
    int block = n == kLength ? 32 : 256;
    size_t shared = n == kLength ? 0 : n * sizeof(float);
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
        walsh_hadamard<<<traces, block, shared>>>(d_x, d_y, n, scale);
        CHECK_CUDA(cudaGetLastError());
        soft_threshold<<<(unsigned)((size + 255) / 256), 256>>>(d_y, size, limit);
        CHECK_CUDA(cudaGetLastError());
        walsh_hadamard<<<traces, block, shared>>>(d_y, d_x, n, scale);
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
