// A matrix product in shared tiles.
#include <cstdio>
#include <vector>

constexpr int kTile = 32;
constexpr int kSide = 1024;

__global__ void product(const float* a, const float* b, float* c)
{
    __shared__ float left[kTile][kTile], right[kTile][kTile];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
    float sum = 0;
    for (int at = 0; at < kSide; at += kTile) {
        left[y][x] = a[row * kSide + at + x];
        right[y][x] = b[(at + y) * kSide + column];
        __syncthreads();
        for (int k = 0; k < kTile; ++k) sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    c[row * kSide + column] = sum;
}

// Launches a few times; then as often as each line of its input says, for whoever measures energy.
int main()
{
    constexpr long kBytes = 1l << 22;
    float* memory[3];
    std::vector<float> host(kBytes / sizeof(float));
    for (size_t i = 0; i < host.size(); ++i) host[i] = float((i * 2654435761u >> 8) % 2001) / 1000.0f - 1.0f;
    for (float*& array : memory) {
        if (cudaMalloc(&array, kBytes) != cudaSuccess) return 1;
        cudaMemcpy(array, host.data(), kBytes, cudaMemcpyHostToDevice);
    }
    int launches = 6;
    do {
        for (int i = 0; i < launches; ++i) product<<<dim3(kSide / kTile, kSide / kTile), dim3(kTile, kTile)>>>(memory[0], memory[1], memory[2]);
        std::printf("%d\n", int(cudaDeviceSynchronize()));
        std::fflush(stdout);
    } while (std::scanf("%d", &launches) == 1);
    return 0;
}
