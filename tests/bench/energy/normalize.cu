// Rows to mean zero and variance one, a warp a row.
#include <cstdio>
#include <vector>

constexpr int kWarps = 4;
constexpr int kRows = 32768, kWidth = 512;

__global__ void normalize(const float* in, float* out)
{
    int row = blockIdx.x * kWarps + threadIdx.y, lane = threadIdx.x;
    if (row >= kRows) return;
    float sum = 0, squares = 0;
    for (int i = lane; i < kWidth; i += 32) {
        float v = in[row * kWidth + i];
        sum += v;
        squares += v * v;
    }
    for (int o = 16; o; o /= 2) {
        sum += __shfl_xor_sync(~0u, sum, o);
        squares += __shfl_xor_sync(~0u, squares, o);
    }
    float mean = sum / kWidth, inverse = rsqrtf(squares / kWidth - mean * mean + 1e-5f);
    for (int i = lane; i < kWidth; i += 32) out[row * kWidth + i] = (in[row * kWidth + i] - mean) * inverse;
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
        for (int i = 0; i < launches; ++i) normalize<<<kRows / kWarps, dim3(32, kWarps)>>>(memory[0], memory[1]);
        std::printf("%d\n", int(cudaDeviceSynchronize()));
        std::fflush(stdout);
    } while (std::scanf("%d", &launches) == 1);
    return 0;
}
