// SPDX-License-Identifier: Apache-2.0
// Batch normalisation while training, NCHW: mean and variance of each channel, then the images are normalised.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define BLOCK_SIZE 256

#define CUDA_CHECK(x)                                               \
    if (cudaError_t e = (x)) {                                      \
        fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e));     \
        exit(2);                                                    \
    }

// One block for each channel.
constexpr int kThreads = 512, kLoads = 4;

struct Sums {
    float sum, squares;
};

__device__ __forceinline__ void add(Sums& s, float v, float origin) {
    float d = v - origin;
    s.sum += d;
    s.squares += d * d;
}

// Sums of a channel's numbers less one of them, so that one pass is enough. Width: of a load, in numbers.
template <int Width>
__device__ __forceinline__ Sums channel_sums(const float* __restrict__ x, float origin, int N, int C, int HW) {
    const int row = HW / Width;
    const long long count = (long long)N * row;
    const size_t skip = (size_t)C * HW;  // from an image to the next
    const int whole = kThreads / row, rest = kThreads % row;
    int n = threadIdx.x / row, p = threadIdx.x % row;
    auto advance = [&] {
        n += whole;
        p += rest;
        if (p >= row) {
            p -= row;
            n++;
        }
    };
    Sums part[kLoads] = {};
    long long i = threadIdx.x;
    for (; i + (kLoads - 1) * kThreads < count; i += kLoads * kThreads) {
        float v[kLoads][Width];
#pragma unroll
        for (int q = 0; q < kLoads; q++) {
            const float* from = x + n * skip + (size_t)p * Width;
            if constexpr (Width == 4) {
                float4 t = __ldcs((const float4*)from);
                v[q][0] = t.x, v[q][1] = t.y, v[q][2] = t.z, v[q][3] = t.w;
            } else {
                v[q][0] = __ldcs(from);
            }
            advance();
        }
#pragma unroll
        for (int q = 0; q < kLoads; q++)
#pragma unroll
            for (int e = 0; e < Width; e++) add(part[q], v[q][e], origin);
    }
    for (; i < count; i += kThreads) {
        const float* from = x + n * skip + (size_t)p * Width;
#pragma unroll
        for (int e = 0; e < Width; e++) add(part[0], from[e], origin);
        advance();
    }
#pragma unroll
    for (int q = 1; q < kLoads; q++) {
        part[0].sum += part[q].sum;
        part[0].squares += part[q].squares;
    }
    return part[0];
}

// Roof: DRAM, 4 bytes a number, read once. A block of 512 threads for each channel, 64 KB on their way on a multiprocessor.
__global__ void __launch_bounds__(kThreads, 2) batch_stats(const float* x, float* mean, float* var, int N, int C, int HW) {
    __shared__ Sums all[kThreads / 32];
    const float* mine = x + (size_t)blockIdx.x * HW;
    const float origin = mine[0];
    Sums s = HW % 4 == 0 ? channel_sums<4>(mine, origin, N, C, HW) : channel_sums<1>(mine, origin, N, C, HW);

#pragma unroll
    for (int bits = 16; bits > 0; bits /= 2) {
        s.sum += __shfl_xor_sync(0xffffffffu, s.sum, bits);
        s.squares += __shfl_xor_sync(0xffffffffu, s.squares, bits);
    }
    if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x < 32) {
        s = threadIdx.x < kThreads / 32 ? all[threadIdx.x] : Sums{0.0f, 0.0f};
#pragma unroll
        for (int bits = 16; bits > 0; bits /= 2) {
            s.sum += __shfl_xor_sync(0xffffffffu, s.sum, bits);
            s.squares += __shfl_xor_sync(0xffffffffu, s.squares, bits);
        }
        if (threadIdx.x == 0) {
            float count = (float)N * HW, d = s.sum / count;
            mean[blockIdx.x] = origin + d;
            var[blockIdx.x] = fmaxf(s.squares / count - d * d, 0.0f);
        }
    }
}

__global__ void batch_normalise(const float* x, float* y, const float* mean, const float* var, const float* gamma,
                                const float* beta, int C, int HW, size_t total) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= total) return;
    int c = i / HW % C;
    y[i] = (x[i] - mean[c]) * rsqrtf(var[c] + 1e-5f) * gamma[c] + beta[c];
}

int main(int argc, char** argv) {
    int N = argc > 1 ? atoi(argv[1]) : 64;
    int C = argc > 2 ? atoi(argv[2]) : 256;
    int H = argc > 3 ? atoi(argv[3]) : 56;
    int W = argc > 4 ? atoi(argv[4]) : 56;
    int HW = H * W;
    size_t total = (size_t)N * C * HW;

    std::vector<float> x(total), gamma(C), beta(C), mean(C), var(C);
    unsigned s = 5;
    for (size_t i = 0; i < total; i++) x[i] = ((s = s * 1664525u + 1013904223u) >> 16) / 16384.0f - 1.5f;
    for (int c = 0; c < C; c++) {
        gamma[c] = 1.0f + (c % 7) * 0.1f;
        beta[c] = (c % 5) * 0.2f;
    }

    float *d_x, *d_y, *d_mean, *d_var, *d_gamma, *d_beta;
    CUDA_CHECK(cudaMalloc(&d_x, total * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_y, total * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_mean, C * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_var, C * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_gamma, C * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_beta, C * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_x, x.data(), total * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_gamma, gamma.data(), C * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_beta, beta.data(), C * sizeof(float), cudaMemcpyHostToDevice));

    for (int step = 0; step < 4; step++) {
        batch_stats<<<C, kThreads>>>(d_x, d_mean, d_var, N, C, HW);
        CUDA_CHECK(cudaGetLastError());
        batch_normalise<<<(unsigned)((total + 255) / 256), 256>>>(d_x, d_y, d_mean, d_var, d_gamma, d_beta, C, HW, total);
        CUDA_CHECK(cudaGetLastError());
    }
    CUDA_CHECK(cudaMemcpy(mean.data(), d_mean, C * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(var.data(), d_var, C * sizeof(float), cudaMemcpyDeviceToHost));
    std::vector<float> y(HW);  // of the last channel of the last image
    CUDA_CHECK(cudaMemcpy(y.data(), d_y + total - HW, HW * sizeof(float), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int c = 0; c < C; c += 1 + C / 12) {
        double m = 0, v = 0;
        for (int n = 0; n < N; n++)
            for (int p = 0; p < HW; p++) m += x[((size_t)n * C + c) * HW + p];
        m /= (double)N * HW;
        for (int n = 0; n < N; n++)
            for (int p = 0; p < HW; p++) v += std::pow(x[((size_t)n * C + c) * HW + p] - m, 2);
        v /= (double)N * HW;
        worst = std::fmax(worst, std::fabs(m - mean[c]));
        worst = std::fmax(worst, std::fabs(v - var[c]) / (v + 1e-5));
    }
    for (int p = 0; p < HW; p++) {
        double want = (x[total - HW + p] - mean[C - 1]) / std::sqrt(var[C - 1] + 1e-5) * gamma[C - 1] + beta[C - 1];
        worst = std::fmax(worst, std::fabs(want - y[p]));
    }
    cudaFree(d_x);
    cudaFree(d_y);
    cudaFree(d_mean);
    cudaFree(d_var);
    cudaFree(d_gamma);
    cudaFree(d_beta);
    printf("%s\n", worst < 1e-4 ? "ok" : "wrong");
    return worst < 1e-4 ? 0 : 1;
}
