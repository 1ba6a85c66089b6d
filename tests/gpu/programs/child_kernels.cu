// A kernel that launches kernels: needs relocatable device code and the device runtime.
#include <cstdio>

__global__ void leaf(float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = sqrtf(x[i] + i);
}

__global__ void parent(float *x, int n, int parts) {
    const int share = n / parts;
    leaf<<<(share + 255) / 256, 256>>>(x + blockIdx.x * share, share);
}

int main() {
    const int n = 1 << 18, parts = 8;
    float *x, first;
    cudaMalloc(&x, n * sizeof(float));
    cudaMemset(x, 0, n * sizeof(float));
    for (int i = 0; i < 4; ++i) parent<<<parts, 1>>>(x, n, parts);
    if (cudaMemcpy(&first, x + 5, sizeof first, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    std::printf("%.4f\n", first);
    return 0;
}
