// A polynomial, and WASTE trips about as long as its own that change nothing: every two of them flip the same bits.
// Whatever even number of them is taken away is a true gain, and no input has another result. Two are to stay: without
// that loop the compiler schedules the other one otherwise, which costs more than is gained. argv[1]: blocks.
#include <cstdio>
#include <cstdlib>

#define TRIPS 1000
#define WASTE 42

__global__ void polynomial(float* out, const float* coefficients, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = out[i] * 0.001f, sum = 0, power = 1;
#pragma unroll 1
    for (int k = 0; k < TRIPS; ++k) {
        sum += coefficients[k] * power;
        power *= x;
    }
    unsigned bits = __float_as_uint(sum);
#pragma unroll 1
    for (int k = 0; k < WASTE; ++k) bits ^= __float_as_uint(coefficients[k / 2]);
    out[i] = __uint_as_float(bits);
}

int main(int argc, char** argv) {
    const int n = (argc > 1 ? std::atoi(argv[1]) : 4096) * 256;
    float *out, *coefficients, host[TRIPS];
    for (int k = 0; k < TRIPS; ++k) host[k] = 1.0f / (k + 1);
    cudaMalloc(&out, n * 4);
    cudaMalloc(&coefficients, sizeof host);
    cudaMemset(out, 0x3f, n * 4);
    cudaMemcpy(coefficients, host, sizeof host, cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; ++i) polynomial<<<n / 256, 256>>>(out, coefficients, n);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    std::printf("polynomial ok\n");
    return 0;
}
