// Two pictures mixed, as wide as loads go: bound by memory, with constants in double beside it.
#include <cstdio>
#include <vector>

constexpr int kBlock = 256;
constexpr int kCount = 1 << 24;

__global__ void mix(const float4* a, const float4* b, float4* out)
{
    int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= kCount) return;
    float4 p = a[i], q = b[i], r;
    r.x = 0.299 * p.x + 0.587 * q.x + 0.114;
    r.y = 0.299 * p.y + 0.587 * q.y + 0.114;
    r.z = 0.299 * p.z + 0.587 * q.z + 0.114;
    r.w = 0.299 * p.w + 0.587 * q.w + 0.114;
    out[i] = r;
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
        for (int i = 0; i < launches; ++i) mix<<<kCount / kBlock, kBlock>>>((const float4*)memory[0], (const float4*)memory[1], (float4*)memory[2]);
        std::printf("%d\n", int(cudaDeviceSynchronize()));
        std::fflush(stdout);
    } while (std::scanf("%d", &launches) == 1);
    return 0;
}
