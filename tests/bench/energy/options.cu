// Prices of options: special functions.
#include <cstdio>
#include <vector>

constexpr int kBlock = 128;
constexpr int kCount = 1 << 22;

__device__ float below(float d) { return 0.5f * erfcf(-0.70710678f * d); }

__global__ void options(const float* spot, const float* strike, const float* years, float* call)
{
    int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= kCount) return;
    float s = 20.0f + 5.0f * spot[i], k = 20.0f + 5.0f * strike[i], t = 1.5f + years[i], rate = 0.02f, spread = 0.3f;
    float root = sqrtf(t);
    float d = (logf(s / k) + (rate + 0.5f * spread * spread) * t) / (spread * root);
    call[i] = s * below(d) - k * expf(-rate * t) * below(d - spread * root);
}

// Launches a few times; then as often as each line of its input says, for whoever measures energy.
int main()
{
    constexpr long kBytes = 1l << 24;
    float* memory[4];
    std::vector<float> host(kBytes / sizeof(float));
    for (size_t i = 0; i < host.size(); ++i) host[i] = float((i * 2654435761u >> 8) % 2001) / 1000.0f - 1.0f;
    for (float*& array : memory) {
        if (cudaMalloc(&array, kBytes) != cudaSuccess) return 1;
        cudaMemcpy(array, host.data(), kBytes, cudaMemcpyHostToDevice);
    }
    int launches = 6;
    do {
        for (int i = 0; i < launches; ++i) options<<<kCount / kBlock, kBlock>>>(memory[0], memory[1], memory[2], memory[3]);
        std::printf("%d\n", int(cudaDeviceSynchronize()));
        std::fflush(stdout);
    } while (std::scanf("%d", &launches) == 1);
    return 0;
}
