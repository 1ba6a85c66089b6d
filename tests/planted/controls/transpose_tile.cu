// Out-of-place transpose through a padded tile.
#include <cstdio>
#include <vector>

constexpr int TILE = 32, ROWS = 8;

// class: memory
__global__ void transpose(float *__restrict__ out, const float *__restrict__ in, int width, int height)
{
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

int main()
{
    int width = 8192, height = 8192;
    std::vector<float> in(size_t(width) * height), out(in.size());
    for (size_t i = 0; i < in.size(); ++i) in[i] = float(i % 4093);
    float *a, *b;
    cudaMalloc(&a, in.size() * 4);
    cudaMalloc(&b, in.size() * 4);
    cudaMemcpy(a, in.data(), in.size() * 4, cudaMemcpyHostToDevice);
    transpose<<<dim3(width / TILE, height / TILE), dim3(TILE, ROWS)>>>(b, a, width, height);
    cudaMemcpy(out.data(), b, out.size() * 4, cudaMemcpyDeviceToHost);
    for (int y = 0; y < height; y += 61)
        for (int x = 0; x < width; x += 59)
            if (out[size_t(x) * height + y] != in[size_t(y) * width + x]) return puts("wrong"), 1;
    puts("ok");
}
