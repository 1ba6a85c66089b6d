// Inverts scanned 8-bit pages.
#include <cstdint>
#include <cstdio>
#include <vector>

// class: latency
__global__ void invert(const uint8_t *__restrict__ page, uint8_t *__restrict__ out, int pixels)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < pixels) out[i] = 255 - page[i];  // expect: scalar-access
}

int main()
{
    const int pixels = 800 * 1000 * 1000;
    std::vector<uint8_t> host(pixels);
    for (int i = 0; i < pixels; ++i) host[i] = uint8_t(i * 7);
    uint8_t *page, *out;
    cudaMalloc(&page, pixels);
    cudaMalloc(&out, pixels);
    cudaMemcpy(page, host.data(), pixels, cudaMemcpyHostToDevice);
    for (int n = 0; n < 4; ++n) invert<<<pixels / 256, 256>>>(page, out, pixels);
    std::vector<uint8_t> got(pixels);
    cudaMemcpy(got.data(), out, pixels, cudaMemcpyDeviceToHost);
    for (int i = 0; i < pixels; i += 13)
        if (got[i] != 255 - host[i]) return printf("pixel %d\n", i), 1;
    puts("ok");
}
