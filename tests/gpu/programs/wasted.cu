// A loop of which the last trips add nothing: TRIPS 1000 is right, every trip more is waste. argv[1]: blocks.
#include <cstdio>
#include <cstdlib>

#define TRIPS 1030

__global__ void polynomial(float* out, const float* coefficients, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = out[i] * 0.001f, sum = 0, power = 1;
#pragma unroll 1
    for (int k = 0; k < TRIPS; ++k) {
        sum += coefficients[k] * power;
        power *= x;
    }
    out[i] = sum;
}

int main(int argc, char** argv) {
    const int n = (argc > 1 ? std::atoi(argv[1]) : 4096) * 256;
    float *out, *coefficients, host[1030] = {};
    for (int k = 0; k < 1000; ++k) host[k] = 1.0f / (k + 1);
    cudaMalloc(&out, n * 4);
    cudaMalloc(&coefficients, sizeof host);
    cudaMemset(out, 0x3f, n * 4);
    cudaMemcpy(coefficients, host, sizeof host, cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; ++i) polynomial<<<n / 256, 256>>>(out, coefficients, n);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    std::printf("polynomial ok\n");
    return 0;
}
