// SPDX-License-Identifier: Apache-2.0
// out = in^T.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

// 32 by 32 elements a block of 32 by 8 threads, through a padded tile.
template <typename T>
__global__ void transposeNaive(T* __restrict__ odata, const T* __restrict__ idata, int width, int height) {
    __shared__ T tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
    for (int k = 0; k < 32; k += 8)
        if (x < width && y + k < height) tile[threadIdx.y + k][threadIdx.x] = idata[(size_t)(y + k) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
    for (int k = 0; k < 32; k += 8)
        if (x < height && y + k < width) odata[(size_t)(y + k) * height + x] = tile[threadIdx.x][threadIdx.y + k];
}

int main(int argc, char** argv) {
    const int width = argc > 1 ? std::atoi(argv[1]) : 8192;
    const int height = argc > 2 ? std::atoi(argv[2]) : 8192;
    const size_t bytes = sizeof(float) * width * height;
    std::vector<float> h_in((size_t)width * height), h_out((size_t)width * height);
    for (size_t i = 0; i < h_in.size(); ++i) h_in[i] = static_cast<float>(i % 65521);

    float *d_in = nullptr, *d_out = nullptr;
    cudaMalloc(&d_in, bytes);
    cudaMalloc(&d_out, bytes);
    cudaMemcpy(d_in, h_in.data(), bytes, cudaMemcpyHostToDevice);
    dim3 threads(32, 8);
    dim3 blocks((width + 31) / 32, (height + 31) / 32);
    for (int rep = 0; rep < 10; ++rep) transposeNaive<float><<<blocks, threads>>>(d_out, d_in, width, height);
    cudaMemcpy(h_out.data(), d_out, bytes, cudaMemcpyDeviceToHost);

    size_t errors = 0;
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
            errors += h_out[(size_t)x * height + y] != h_in[(size_t)y * width + x];
    std::printf("%zu errors\n", errors);
    cudaFree(d_in);
    cudaFree(d_out);
    return errors ? EXIT_FAILURE : EXIT_SUCCESS;
}
