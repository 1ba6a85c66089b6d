// Seven points of a cube: bound by memory and L2.
#include <cstdio>
#include <vector>

constexpr int kWide = 32, kHigh = 8;
constexpr int kSide = 256;

__global__ void heat(const float* from, float* to, float rate)
{
    int x = blockIdx.x * kWide + threadIdx.x, y = blockIdx.y * kHigh + threadIdx.y, z = blockIdx.z;
    if (x < 1 || y < 1 || z < 1 || x >= kSide - 1 || y >= kSide - 1 || z >= kSide - 1) return;
    int at = (z * kSide + y) * kSide + x;
    float around = from[at - 1] + from[at + 1] + from[at - kSide] + from[at + kSide] + from[at - kSide * kSide]
        + from[at + kSide * kSide];
    to[at] = from[at] + rate * (around - 6.0f * from[at]);
}

// Launches a few times; then as often as each line of its input says, for whoever measures energy.
int main()
{
    constexpr long kBytes = 1l << 26;
    float* memory[2];
    std::vector<float> host(kBytes / sizeof(float));
    for (size_t i = 0; i < host.size(); ++i) host[i] = float((i * 2654435761u >> 8) % 2001) / 1000.0f - 1.0f;
    for (float*& array : memory) {
        if (cudaMalloc(&array, kBytes) != cudaSuccess) return 1;
        cudaMemcpy(array, host.data(), kBytes, cudaMemcpyHostToDevice);
    }
    int launches = 6;
    do {
        for (int i = 0; i < launches; ++i) heat<<<dim3(kSide / kWide, kSide / kHigh, kSide), dim3(kWide, kHigh)>>>(memory[0], memory[1], 0.1f);
        std::printf("%d\n", int(cudaDeviceSynchronize()));
        std::fflush(stdout);
    } while (std::scanf("%d", &launches) == 1);
    return 0;
}
