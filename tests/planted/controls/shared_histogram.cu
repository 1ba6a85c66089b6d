// 256-bin histogram with a copy a block in shared memory.
#include <cstdio>
#include <cstring>
#include <vector>

// class: memory
__global__ void histogram(const uchar4 *__restrict__ data, unsigned *__restrict__ bins, int quads)
{
    __shared__ unsigned mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += gridDim.x * blockDim.x) {
        uchar4 q = data[i];
        atomicAdd(&mine[q.x], 1u), atomicAdd(&mine[q.y], 1u), atomicAdd(&mine[q.z], 1u), atomicAdd(&mine[q.w], 1u);
    }
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

int main()
{
    const int n = 512 << 20;
    std::vector<unsigned char> host(n);
    unsigned want[256] = {}, got[256], seed = 3;
    for (int i = 0; i < n; ++i) {
        seed = seed * 1664525u + 1013904223u;
        want[host[i] = seed >> 24]++;
    }
    unsigned char *data;
    unsigned *bins;
    cudaMalloc(&data, n), cudaMalloc(&bins, sizeof want);
    cudaMemset(bins, 0, sizeof want);
    cudaMemcpy(data, host.data(), n, cudaMemcpyHostToDevice);
    histogram<<<132 * 8, 256>>>((const uchar4 *)data, bins, n / 4);
    cudaMemcpy(got, bins, sizeof got, cudaMemcpyDeviceToHost);
    if (memcmp(got, want, sizeof got)) return puts("wrong"), 1;
    puts("ok");
}
