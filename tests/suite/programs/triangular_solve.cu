// SPDX-License-Identifier: Apache-2.0
// Forward substitution, L X = B, with one lower triangular matrix and many right-hand sides: a thread a right-hand side.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t err = (call);                                                        \
        if (err != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(2);                                                                     \
        }                                                                                \
    } while (0)

__host__ __device__ inline float right_hand_side(unsigned i) {
    i = (i ^ (i >> 16)) * 0x7feb352du;
    i = (i ^ (i >> 15)) * 0x846ca68bu;
    return (float)(i >> 8) * (2.0f / (1 << 24)) - 1.0f;
}

__global__ void fill(float* B, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) B[i] = right_hand_side(i);
}

// L: (n, n), B and X: (n, m), all by rows
__global__ void forward_substitution(const float* L, const float* B, float* X, int n, int m) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= m) return;
    for (int i = 0; i < n; i++) {
        float sum = B[i * m + col];
        for (int j = 0; j < i; j++) sum -= L[i * n + j] * X[j * m + col];
        X[i * m + col] = sum / L[i * n + i];
    }
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 128;
    int m = argc > 2 ? atoi(argv[2]) : 131072;
    int block = argc > 3 ? atoi(argv[3]) : 256;

    std::vector<float> L((size_t)n * n, 0.0f);
    unsigned s = 5;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) L[i * n + j] = ((s = s * 1664525u + 1013904223u) >> 8) * (0.4f / (1 << 24)) - 0.2f;
        L[i * n + i] = 1.0f + 0.5f * (i % 5);
    }

    size_t bytes = (size_t)n * m * sizeof(float);
    float *d_L, *d_B, *d_X;
    CHECK(cudaMalloc(&d_L, L.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_B, bytes));
    CHECK(cudaMalloc(&d_X, bytes));
    CHECK(cudaMemcpy(d_L, L.data(), L.size() * sizeof(float), cudaMemcpyHostToDevice));
    fill<<<(n * m + 255) / 256, 256>>>(d_B, n * m);
    CHECK(cudaGetLastError());

    for (int run = 0; run < 3; run++) {
        forward_substitution<<<(m + block - 1) / block, block>>>(d_L, d_B, d_X, n, m);
        CHECK(cudaGetLastError());
    }

    float* X = (float*)malloc(bytes);
    CHECK(cudaMemcpy(X, d_X, bytes, cudaMemcpyDeviceToHost));

    // some columns again in double
    double worst = 0, total = 0;
    std::vector<double> x(n);
    for (int col = 0; col < m; col += 1 + m / 97) {
        for (int i = 0; i < n; i++) {
            double sum = right_hand_side(i * m + col);
            for (int j = 0; j < i; j++) sum -= (double)L[i * n + j] * x[j];
            x[i] = sum / L[i * n + i];
            total += X[i * m + col];
            worst = std::fmax(worst, std::fabs(x[i] - X[i * m + col]) / (1 + std::fabs(x[i])));
        }
    }
    free(X);
    CHECK(cudaFree(d_L));
    CHECK(cudaFree(d_B));
    CHECK(cudaFree(d_X));
    printf("sum of the sampled columns %.4f\n%s\n", total, worst < 1e-4 ? "ok" : "wrong");
    return worst < 1e-4 ? 0 : 1;
}
