// A scaled sum of two arrays: bound by memory.
#include <cstdio>
#include <vector>

constexpr int kBlock = 256;
constexpr int kCount = 1 << 25;

__global__ void triad(const float* a, const float* b, float* c, float scale)
{
    int i = blockIdx.x * kBlock + threadIdx.x;
    if (i < kCount) c[i] = a[i] + scale * b[i];
}

// Launches a few times; then as often as each line of its input says, for whoever measures energy.
int main()
{
    constexpr long kBytes = 1l << 27;
    float* memory[3];
    std::vector<float> host(kBytes / sizeof(float));
    for (size_t i = 0; i < host.size(); ++i) host[i] = float((i * 2654435761u >> 8) % 2001) / 1000.0f - 1.0f;
    for (float*& array : memory) {
        if (cudaMalloc(&array, kBytes) != cudaSuccess) return 1;
        cudaMemcpy(array, host.data(), kBytes, cudaMemcpyHostToDevice);
    }
    int launches = 6;
    do {
        for (int i = 0; i < launches; ++i) triad<<<(kCount + kBlock - 1) / kBlock, kBlock>>>(memory[0], memory[1], memory[2], 1.5f);
        std::printf("%d\n", int(cudaDeviceSynchronize()));
        std::fflush(stdout);
    } while (std::scanf("%d", &launches) == 1);
    return 0;
}
