// A program with one fault of each kind, chosen by its argument.
#include <cstdio>
#include <cstdlib>

__global__ void overrun(float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 2.0f * i;
}

__global__ void reverse(const float *in, float *out) {
    __shared__ float tile[256];
    tile[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
    out[blockIdx.x * 256 + threadIdx.x] = tile[255 - threadIdx.x];
}

__global__ void total(const float *in, float *out) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < 1024; i += 32) sum += in[i];
    out[threadIdx.x] = sum;
}


__global__ void uneven(float *out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = out[threadIdx.x];
    if (threadIdx.x < 48) {
        __syncthreads();
        tile[threadIdx.x] += 1.0f;
    }
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

__global__ void askew(char *bytes) {
    *reinterpret_cast<int *>(bytes + 4 * threadIdx.x + 1) = 7;
}

int main(int argc, char **argv) {
    int which = argc > 1 ? std::atoi(argv[1]) : 0;
    float *a, *b;
    cudaMalloc(&a, 4096);
    cudaMalloc(&b, 4096);
    if (which != 3) cudaMemset(a, 0, 4096);
    if (which != 3) cudaMemset(b, 0, 4096);
    if (which == 1) overrun<<<5, 256>>>(a, 1024);
    if (which == 2) reverse<<<4, 256>>>(a, b);
    if (which == 3) total<<<1, 32>>>(a, b);
    if (which == 4) uneven<<<1, 64>>>(a);
    if (which == 5) askew<<<1, 32>>>(reinterpret_cast<char *>(a));
    cudaError_t error = cudaDeviceSynchronize();
    std::printf("%s\n", cudaGetErrorString(error));
    cudaFree(a);
    cudaFree(b);
    return error != cudaSuccess;
}
