// Byte frequencies of a file image.
#include <cstdio>
#include <cstdlib>
#include <cstring>

typedef unsigned int u32;

// class: memory
__global__ void frequencies(const unsigned char *bytes, u32 *bins, size_t count)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (; i < count; i += step)
        atomicAdd(&bins[bytes[i]], 1u);  // expect: global-atomic-contention
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
