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

__global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++) {
            sum += A[row * K + k] * B[k * N + col];
        }
        C[row * N + col] = sum;
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

    dim3 block(16, 16);
    dim3 grid((N + block.x - 1) / block.x, (M + block.y - 1) / block.y);
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
