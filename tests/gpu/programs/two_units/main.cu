#include <cstdio>

#include "smooth.h"

__global__ void fill(float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i % 100;
}

int main() {
    const int n = 1 << 22;
    float *a, *b, some;
    cudaMalloc(&a, n * sizeof(float));
    cudaMalloc(&b, n * sizeof(float));
    fill<<<n / 256, 256>>>(a, n);
    cudaMemset(b, 0, n * sizeof(float));
    for (int i = 0; i < 6; ++i) run_smooth(i % 2 ? b : a, i % 2 ? a : b, n);
    if (cudaMemcpy(&some, a + 12345, sizeof some, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%.4f\n", some);
    return 0;
}
