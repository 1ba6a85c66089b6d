// Byte frequencies of a file image.
#include <cstdio>
#include <cstdlib>
#include <cstring>

typedef unsigned int u32;

// class: memory
__global__ void frequencies(const unsigned char *bytes, u32 *bins, size_t count)
{
    __shared__ u32 mine[8][256];
    for (int b = threadIdx.x; b < 8 * 256; b += blockDim.x) (&mine[0][0])[b] = 0;
    __syncthreads();
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (; i < count; i += step)
        atomicAdd(&mine[threadIdx.x / 32][bytes[i]], 1u);
    __syncthreads();
    u32 sum = 0;
    for (int w = 0; w < 8; ++w) sum += mine[w][threadIdx.x];
    atomicAdd(&bins[threadIdx.x], sum);
}

int main()
{
    size_t count = 256u << 20;
    unsigned char *host = (unsigned char *)malloc(count), *bytes;
    u32 want[256] = {0}, got[256], *bins, seed = 7;
    for (size_t i = 0; i < count; ++i) {
        seed = seed * 1103515245u + 12345u;
        host[i] = (seed >> 20) & (seed >> 26) & 0xff;
        want[host[i]]++;
    }
    cudaMalloc(&bytes, count);
    cudaMalloc(&bins, sizeof want);
    cudaMemcpy(bytes, host, count, cudaMemcpyHostToDevice);
    for (int i = 0; i < 2; ++i) {
        cudaMemset(bins, 0, sizeof want);
        frequencies<<<2112, 256>>>(bytes, bins, count);
    }
    cudaMemcpy(got, bins, sizeof got, cudaMemcpyDeviceToHost);
    puts(memcmp(got, want, sizeof got) ? "wrong" : "ok");
    return memcmp(got, want, sizeof got) != 0;
}
