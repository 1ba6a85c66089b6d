// SPDX-License-Identifier: Apache-2.0
// C = A * B, one thread an element.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t err = (call);                                                        \
        if (err != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

constexpr int kTileM = 128, kTileN = 128, kTileK = 8, kPerThread = 8;

// A tile of 128 by 128 a block, 8 by 8 a thread in registers; the next tile of A and B is loaded meanwhile.
__global__ void __launch_bounds__(256) matmul(const float* __restrict__ A, const float* __restrict__ B,
                                              float* __restrict__ C, int M, int N, int K) {
    __shared__ __align__(16) float a[2][kTileK][kTileM + 4];
    __shared__ __align__(16) float b[2][kTileK][kTileN];
    const int row0 = blockIdx.y * kTileM, col0 = blockIdx.x * kTileN;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float next_a[4], next_b[4], sum[kPerThread][kPerThread] = {};

    auto load = [&](int k0) {
        for (int i = 0; i < 4; i++) {
            int at = threadIdx.x + i * 256;
            int row = row0 + at / kTileK, k = k0 + at % kTileK;
            next_a[i] = row < M && k < K ? A[(size_t)row * K + k] : 0.0f;
            int kb = k0 + at / kTileN, col = col0 + at % kTileN;
            next_b[i] = kb < K && col < N ? B[(size_t)kb * N + col] : 0.0f;
        }
    };
    auto store = [&](int to) {
        for (int i = 0; i < 4; i++) {
            int at = threadIdx.x + i * 256;
            a[to][at % kTileK][at / kTileK] = next_a[i];
            b[to][at / kTileN][at % kTileN] = next_b[i];
        }
    };

    load(0);
    store(0);
    __syncthreads();
    for (int k0 = 0, now = 0; k0 < K; k0 += kTileK, now ^= 1) {
        bool more = k0 + kTileK < K;
        if (more) load(k0 + kTileK);
#pragma unroll
        for (int k = 0; k < kTileK; k++) {
            float ra[kPerThread], rb[kPerThread];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                *(float4*)&ra[4 * h] = *(const float4*)&a[now][k][64 * h + 4 * ty];
                *(float4*)&rb[4 * h] = *(const float4*)&b[now][k][64 * h + 4 * tx];
            }
#pragma unroll
            for (int i = 0; i < kPerThread; i++)
#pragma unroll
                for (int j = 0; j < kPerThread; j++) sum[i][j] += ra[i] * rb[j];
        }
        if (more) store(now ^ 1);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kPerThread; i++) {
        int row = row0 + 64 * (i / 4) + 4 * ty + i % 4;
        if (row >= M) continue;
#pragma unroll
        for (int j = 0; j < kPerThread; j++) {
            int col = col0 + 64 * (j / 4) + 4 * tx + j % 4;
            if (col < N) C[(size_t)row * N + col] = sum[i][j];
        }
    }
}

int main(int argc, char** argv) {
    int M = argc > 1 ? atoi(argv[1]) : 2048;
    int N = argc > 2 ? atoi(argv[2]) : 2048;
    int K = argc > 3 ? atoi(argv[3]) : 2048;
    std::vector<float> a(M * K), b(K * N), c(M * N);
    srand(1);
    for (float& x : a) x = rand() / (float)RAND_MAX - 0.5f;
    for (float& x : b) x = rand() / (float)RAND_MAX - 0.5f;

    float *d_a, *d_b, *d_c;
    CHECK(cudaMalloc(&d_a, a.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_b, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_c, c.size() * sizeof(float)));
    CHECK(cudaMemcpy(d_a, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));

    dim3 block(256);
    dim3 grid((N + kTileN - 1) / kTileN, (M + kTileM - 1) / kTileM);
    for (int i = 0; i < 3; i++) {
        matmul<<<grid, block>>>(d_a, d_b, d_c, M, N, K);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), d_c, c.size() * sizeof(float), cudaMemcpyDeviceToHost));

    double worst = 0, total = 0;
    for (int t = 0; t < 200; t++) {
        int i = rand() % M, j = rand() % N;
        double sum = 0;
        for (int k = 0; k < K; k++) sum += (double)a[i * K + k] * b[k * N + j];
        worst = fmax(worst, fabs(sum - c[i * N + j]));
    }
    for (float x : c) total += x;
    printf("%s total %.4f\n", worst < 1e-3 ? "ok" : "WRONG", total);
    cudaFree(d_a);
    cudaFree(d_b);
    cudaFree(d_c);
    return worst < 1e-3 ? 0 : 1;
}
