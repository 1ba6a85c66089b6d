// An equation of state of two fields, as wide as loads go: bound by memory, with powers beside it.
#include <cstdio>
#include <vector>

constexpr int kBlock = 256;
constexpr int kCount = 1 << 24;

__global__ void cubes(const float4* density, const float4* heat, float4* pressure)
{
    int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= kCount) return;
    float4 d = density[i], h = heat[i], p;
    p.x = powf(d.x, 3.0f) + 0.4f * d.x * h.x;
    p.y = powf(d.y, 3.0f) + 0.4f * d.y * h.y;
    p.z = powf(d.z, 3.0f) + 0.4f * d.z * h.z;
    p.w = powf(d.w, 3.0f) + 0.4f * d.w * h.w;
    pressure[i] = p;
}

// Launches a few times; then as often as each line of its input says, for whoever measures energy.
int main()
{
    constexpr long kBytes = 1l << 28;
    float* memory[3];
    std::vector<float> host(kBytes / sizeof(float));
    for (size_t i = 0; i < host.size(); ++i) host[i] = float((i * 2654435761u >> 8) % 2001) / 1000.0f - 1.0f;
    for (float*& array : memory) {
        if (cudaMalloc(&array, kBytes) != cudaSuccess) return 1;
        cudaMemcpy(array, host.data(), kBytes, cudaMemcpyHostToDevice);
    }
    int launches = 6;
    do {
        for (int i = 0; i < launches; ++i) cubes<<<kCount / kBlock, kBlock>>>((const float4*)memory[0], (const float4*)memory[1], (float4*)memory[2]);
        std::printf("%d\n", int(cudaDeviceSynchronize()));
        std::fflush(stdout);
    } while (std::scanf("%d", &launches) == 1);
    return 0;
}
