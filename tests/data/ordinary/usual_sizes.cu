// SPDX-License-Identifier: Apache-2.0
// Threads with loops of their own, as many as the card holds where the program is given no size: of how few would leave
// it idle nothing is said.
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void highest(float *__restrict__ out, const float *__restrict__ in, int n, int m, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float top = 0.0f;
    for (int j = 0; j < m; ++j) {
        float sum = 0.0f;
        for (int k = 0; k < d; ++k) sum += in[(size_t)(j * d + k) * n + i];
        top = fmaxf(top, sum);
    }
    out[i] = top;
}

__global__ void highest_of_few(float *__restrict__ out, const float *__restrict__ in, int n, int m, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float top = 0.0f;
    for (int j = 0; j < m; ++j) {
        float sum = 0.0f;
        for (int k = 0; k < d; ++k) sum += in[(size_t)(j * d + k) * n + i];
        top = fmaxf(top, sum);
    }
    out[i] = top;
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 1 << 20, few = argc > 2 ? atoi(argv[2]) : 1 << 17;
    const int m = argc > 3 ? atoi(argv[3]) : 16, d = argc > 4 ? atoi(argv[4]) : 16;
    float *in, *out;
    cudaMalloc(&in, (size_t)n * m * d * sizeof(float));
    cudaMalloc(&out, n * sizeof(float));
    highest<<<(n + 255) / 256, 256>>>(out, in, n, m, d);
    highest_of_few<<<(few + 255) / 256, 256>>>(out, in, few, m, d);  // told: grid-too-small information
    cudaDeviceSynchronize();
}
