// Relaxes a rod in many short steps, each a launch of its own.
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void relax(float* next, const float* now, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i + 1 < n) next[i] = 0.25f * now[i - 1] + 0.5f * now[i] + 0.25f * now[i + 1];
}

int main(int argc, char** argv) {
    int n = 1 << 14, steps = argc > 1 ? std::atoi(argv[1]) : 60000;
    std::vector<float> rod(n);
    for (int i = 0; i < n; ++i) rod[i] = (i * 37 % 101) / 10.0f;
    float *now, *next;
    if (cudaMalloc(&now, n * 4) != cudaSuccess || cudaMalloc(&next, n * 4) != cudaSuccess) return 1;
    cudaMemcpy(now, rod.data(), n * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(next, rod.data(), n * 4, cudaMemcpyHostToDevice);
    for (int s = 0; s < steps; s += 2) {
        relax<<<n / 256, 256>>>(next, now, n);
        relax<<<n / 256, 256>>>(now, next, n);
    }
    cudaMemcpy(rod.data(), now, n * 4, cudaMemcpyDeviceToHost);
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += rod[i] * (i % 11);
    std::printf("after %d steps: %.6f\n", steps, sum);
    return cudaGetLastError() != cudaSuccess;
}
