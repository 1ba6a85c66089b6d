// Float atomics (sums that differ by rounding from run to run) and a compaction whose order differs.
#include <cstdio>
#include <vector>

__global__ void histogram(const float* in, float* sums, float* picked, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&sums[i % 13], in[i]);
    if (picked && in[i] > 0.999f) picked[atomicAdd(count, 1)] = in[i];
}

int main(int argc, char**) {
    const int n = 1 << 20;
    std::vector<float> host(n);
    for (int i = 0; i < n; ++i) host[i] = float((i * 7919) % 10007) / 10007.0f;
    float *in, *sums, *picked;
    int* count;
    cudaMalloc(&in, n * 4);
    cudaMalloc(&sums, 13 * 4);
    cudaMalloc(&picked, n * 4);
    cudaMalloc(&count, 4);
    cudaMemcpy(in, host.data(), n * 4, cudaMemcpyHostToDevice);
    cudaMemset(sums, 0, 13 * 4);
    cudaMemset(picked, 0, n * 4);
    cudaMemset(count, 0, 4);
    histogram<<<n / 256, 256>>>(in, sums, argc > 1 ? picked : nullptr, count, n);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    std::printf("atomics ok\n");
    return 0;
}
