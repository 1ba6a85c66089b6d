// Transposes a matrix through a tile in shared memory, so that both the read and the write are coalesced.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t status = (call);                                                 \
        if (status != cudaSuccess) {                                                 \
            std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            std::exit(1);                                                            \
        }                                                                            \
    } while (0)

constexpr int kTile = 32;
constexpr int kRows = 8;

__global__ void transpose(float *out, const float *in, int width, int height)
{
    __shared__ float tile[kTile][kTile];

    int x = blockIdx.x * kTile + threadIdx.x;
    int y = blockIdx.y * kTile + threadIdx.y;
    for (int j = 0; j < kTile; j += kRows)
        if (x < width && y + j < height)
            tile[threadIdx.y + j][threadIdx.x] = in[(size_t)(y + j) * width + x];

    __syncthreads();

    x = blockIdx.y * kTile + threadIdx.x;
    y = blockIdx.x * kTile + threadIdx.y;
    for (int j = 0; j < kTile; j += kRows)
        if (x < height && y + j < width)
            out[(size_t)(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

int main()
{
    const int width = 8192, height = 4096;
    const size_t bytes = sizeof(float) * width * height;
    std::vector<float> host(width * height);
    for (size_t i = 0; i < host.size(); ++i) host[i] = float(i % 8191);

    float *in, *out;
    CHECK(cudaMalloc(&in, bytes));
    CHECK(cudaMalloc(&out, bytes));
    CHECK(cudaMemcpy(in, host.data(), bytes, cudaMemcpyHostToDevice));

    dim3 block(kTile, kRows);
    dim3 grid((width + kTile - 1) / kTile, (height + kTile - 1) / kTile);
    for (int i = 0; i < 20; ++i) transpose<<<grid, block>>>(out, in, width, height);
    CHECK(cudaGetLastError());

    std::vector<float> result(host.size());
    CHECK(cudaMemcpy(result.data(), out, bytes, cudaMemcpyDeviceToHost));
    for (int r = 0; r < height; r += 97)
        for (int c = 0; c < width; c += 89)
            if (result[(size_t)c * height + r] != host[(size_t)r * width + c]) {
                std::printf("wrong at %d %d\n", r, c);
                return 1;
            }
    std::printf("transpose ok\n");
    cudaFree(in);
    cudaFree(out);
    return 0;
}
