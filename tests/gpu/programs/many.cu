// Thousands of launches of a kernel of a few microseconds, in two shapes; exits by argument. argv[1]: status.
#include <cstdio>
#include <cstdlib>

__global__ void tiny(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * 0.99f + 0.5f;
}

int main(int argc, char** argv) {
    const int n = 1 << 16;
    float* x;
    cudaMalloc(&x, n * 4);
    cudaMemset(x, 0, n * 4);
    for (int i = 0; i < 5000; ++i) tiny<<<n / 256, 256>>>(x, n);
    for (int i = 0; i < 100; ++i) tiny<<<n / 1024, 128>>>(x, n / 8);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    std::printf("many ok\n");
    return argc > 1 ? std::atoi(argv[1]) : 0;
}
