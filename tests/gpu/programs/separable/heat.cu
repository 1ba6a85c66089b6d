// Compiled, archived and linked in steps, as CMake does with CUDA_SEPARABLE_COMPILATION; its compile database says how.
#include <cstdio>

#include "flux.cuh"

__global__ void diffuse(const float* from, float* to, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
    const int at = y * width + x;
    float change = 0.0f;
    for (int step = 0; step < STEPS; ++step)
        change += flux(from[at], from[at - 1]) + flux(from[at], from[at + 1]) + flux(from[at], from[at - width]) +
                  flux(from[at], from[at + width]);
    to[at] = from[at] + change / STEPS;
}

int main() {
    const int width = 2048, height = 1024;
    float *a, *b, middle;
    cudaMalloc(&a, width * height * sizeof(float));
    cudaMalloc(&b, width * height * sizeof(float));
    cudaMemset(a, 0x3f, width * height * sizeof(float));
    cudaMemset(b, 0, width * height * sizeof(float));
    const dim3 block(32, 8), grid(width / 32, height / 8);
    for (int i = 0; i < 6; ++i) diffuse<<<grid, block>>>(i % 2 ? b : a, i % 2 ? a : b, width, height);
    if (cudaMemcpy(&middle, a + width * height / 2 + 7, sizeof middle, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%.5f\n", middle);
    return 0;
}
