// Every element's share of a total: bound by memory, with a division by what stays the same beside it.
#include <cstdio>
#include <vector>

constexpr int kBlock = 256, kEach = 8;
constexpr int kCount = 1 << 26;

__global__ void shares(const float* in, float* out, float total)
{
    int i = blockIdx.x * kBlock * kEach + threadIdx.x;
    for (int k = 0; k < kEach; ++k) {
        out[i + k * kBlock] = in[i + k * kBlock] / total;
    }
}

// Launches a few times; then as often as each line of its input says, for whoever measures energy.
int main()
{
    constexpr long kBytes = 1l << 28;
    float* memory[2];
    std::vector<float> host(kBytes / sizeof(float));
    for (size_t i = 0; i < host.size(); ++i) host[i] = float((i * 2654435761u >> 8) % 2001) / 1000.0f - 1.0f;
    for (float*& array : memory) {
        if (cudaMalloc(&array, kBytes) != cudaSuccess) return 1;
        cudaMemcpy(array, host.data(), kBytes, cudaMemcpyHostToDevice);
    }
    int launches = 6;
    do {
        for (int i = 0; i < launches; ++i) shares<<<kCount / (kBlock * kEach), kBlock>>>(memory[0], memory[1], 1234.5f);
        std::printf("%d\n", int(cudaDeviceSynchronize()));
        std::fflush(stdout);
    } while (std::scanf("%d", &launches) == 1);
    return 0;
}
