// SPDX-License-Identifier: Apache-2.0
// A program that tries itself on a matrix of one tile where it is given no size: that says nothing of how many blocks
// hide each other's waits.
#include <cstdlib>
#include <cuda_runtime.h>

constexpr int kTile = 16;

__global__ void multiplied(float *c, const float *a, const float *b, int rows, int inner, int columns) {
    __shared__ float as[kTile][kTile], bs[kTile][kTile];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
    float sum = 0.0f;
    for (int t = 0; t < (inner + kTile - 1) / kTile; ++t) {
        as[y][x] = row < rows && t * kTile + x < inner ? a[row * inner + t * kTile + x] : 0.0f;  // told: unoverlapped-copy hint
        bs[y][x] = column < columns && t * kTile + y < inner ? b[(t * kTile + y) * columns + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < kTile; ++k) sum += as[y][k] * bs[k][x];  // told: small-register-tile warning
        __syncthreads();
    }
    if (row < rows && column < columns) c[row * columns + column] = sum;
}

int main(int argc, char **argv) {
    const int n = argc == 2 ? atoi(argv[1]) : 4;
    float *a, *b, *c;
    cudaMalloc(&a, n * n * sizeof(float));
    cudaMalloc(&b, n * n * sizeof(float));
    cudaMalloc(&c, n * n * sizeof(float));
    dim3 block(kTile, kTile), grid((n + kTile - 1) / kTile, (n + kTile - 1) / kTile);
    multiplied<<<grid, block>>>(c, a, b, n, n, n);
    cudaDeviceSynchronize();
}
