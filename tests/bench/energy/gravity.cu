// Every body's potential from all others: bound by arithmetic.
#include <cstdio>
#include <vector>

constexpr int kBlock = 256;
constexpr int kBodies = 32768;

__global__ void gravity(const float4* body, float* potential)
{
    int i = blockIdx.x * kBlock + threadIdx.x;
    if (i >= kBodies) return;
    float4 me = body[i];
    float sum = 0;
    for (int j = 0; j < kBodies; ++j) {
        float4 other = body[j];
        float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
        sum += other.w * rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
    }
    potential[i] = -sum;
}

// Launches a few times; then as often as each line of its input says, for whoever measures energy.
int main()
{
    constexpr long kBytes = 1l << 19;
    float* memory[2];
    std::vector<float> host(kBytes / sizeof(float));
    for (size_t i = 0; i < host.size(); ++i) host[i] = float((i * 2654435761u >> 8) % 2001) / 1000.0f - 1.0f;
    for (float*& array : memory) {
        if (cudaMalloc(&array, kBytes) != cudaSuccess) return 1;
        cudaMemcpy(array, host.data(), kBytes, cudaMemcpyHostToDevice);
    }
    int launches = 6;
    do {
        for (int i = 0; i < launches; ++i) gravity<<<kBodies / kBlock, kBlock>>>((const float4*)memory[0], memory[1]);
        std::printf("%d\n", int(cudaDeviceSynchronize()));
        std::fflush(stdout);
    } while (std::scanf("%d", &launches) == 1);
    return 0;
}
