// Transposes a large matrix through shared memory, checks every element, and times nothing by itself.
#include <cstdio>
#include <vector>

constexpr int kTile = 32;
constexpr int kRows = 8;

__global__ void transpose_tiled(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    __shared__ float tile[kTile][kTile];

    int x = blockIdx.x * kTile + threadIdx.x;
    int y = blockIdx.y * kTile + threadIdx.y;
    for (int j = 0; j < kTile; j += kRows)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(size_t)(y + j) * width + x];

    __syncthreads();

    x = blockIdx.y * kTile + threadIdx.x;
    y = blockIdx.x * kTile + threadIdx.y;
    for (int j = 0; j < kTile; j += kRows)
        if (x < height && y + j < width) out[(size_t)(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

int main()
{
    const int width = 4096, height = 4096;
    const size_t count = (size_t)width * height;
    std::vector<float> host(count), result(count);
    for (size_t i = 0; i < count; ++i) host[i] = float(i % 65521);

    float *in = nullptr, *out = nullptr;
    cudaMalloc(&in, count * sizeof(float));
    cudaMalloc(&out, count * sizeof(float));
    cudaMemcpy(in, host.data(), count * sizeof(float), cudaMemcpyHostToDevice);

    const dim3 block(kTile, kRows);
    const dim3 grid((width + kTile - 1) / kTile, (height + kTile - 1) / kTile);
    for (int i = 0; i < 50; ++i) transpose_tiled<<<grid, block>>>(out, in, width, height);

    if (cudaMemcpy(result.data(), out, count * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) return 2;
    size_t wrong = 0;
    for (int r = 0; r < height; ++r)
        for (int c = 0; c < width; ++c) wrong += result[(size_t)c * height + r] != host[(size_t)r * width + c];
    std::printf("transpose of %d x %d: %zu wrong\n", height, width, wrong);
    cudaFree(in);
    cudaFree(out);
    return wrong != 0;
}
