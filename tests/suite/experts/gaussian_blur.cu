// SPDX-License-Identifier: Apache-2.0
// Gaussian blur of a grey image, the filter in constant memory.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define RADIUS 3
#define WIDTH (2 * RADIUS + 1)

__constant__ float d_filter[WIDTH * WIDTH];

constexpr int kPixels = 4;

// Four pixels of a row a thread; the tile with its border is staged in shared memory.
__global__ void __launch_bounds__(256) blur(const unsigned char* __restrict__ src, unsigned char* __restrict__ dst,
                                            int w, int h) {
    __shared__ unsigned char tile[16 + 2 * RADIUS][16 * kPixels + 2 * RADIUS + 2];
    int x0 = blockIdx.x * 16 * kPixels, y0 = blockIdx.y * 16;
    for (int y = threadIdx.y; y < 16 + 2 * RADIUS; y += 16)
        for (int x = threadIdx.x; x < 16 * kPixels + 2 * RADIUS; x += 16) {
            int sx = min(max(x0 + x - RADIUS, 0), w - 1), sy = min(max(y0 + y - RADIUS, 0), h - 1);
            tile[y][x] = src[(size_t)sy * w + sx];
        }
    __syncthreads();
    float sum[kPixels] = {};
#pragma unroll
    for (int fy = 0; fy < WIDTH; fy++) {
        float row[kPixels + 2 * RADIUS];
#pragma unroll
        for (int k = 0; k < kPixels + 2 * RADIUS; k++) row[k] = tile[threadIdx.y + fy][threadIdx.x * kPixels + k];
#pragma unroll
        for (int fx = 0; fx < WIDTH; fx++)
#pragma unroll
            for (int p = 0; p < kPixels; p++) sum[p] += row[p + fx] * d_filter[fy * WIDTH + fx];
    }
    int y = y0 + threadIdx.y;
#pragma unroll
    for (int p = 0; p < kPixels; p++) {
        int x = x0 + threadIdx.x * kPixels + p;
        if (x < w && y < h) dst[(size_t)y * w + x] = (unsigned char)(sum[p] + 0.5f);
    }
}

int main(int argc, char** argv) {
    int w = argc > 1 ? atoi(argv[1]) : 7680, h = argc > 2 ? atoi(argv[2]) : 4320;
    std::vector<unsigned char> src((size_t)w * h), dst(src.size());
    for (size_t i = 0; i < src.size(); i++) src[i] = (unsigned char)((i * 2654435761u) >> 24);
    float filter[WIDTH * WIDTH], total = 0;
    for (int y = -RADIUS; y <= RADIUS; y++)
        for (int x = -RADIUS; x <= RADIUS; x++)
            total += filter[(y + RADIUS) * WIDTH + x + RADIUS] = expf(-(x * x + y * y) / 4.5f);
    for (float& f : filter) f /= total;
    unsigned char *d_src, *d_dst;
    cudaMalloc(&d_src, src.size());
    cudaMalloc(&d_dst, dst.size());
    cudaMemcpy(d_src, src.data(), src.size(), cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(d_filter, filter, sizeof(filter));
    dim3 block(16, 16), grid((w + block.x * kPixels - 1) / (block.x * kPixels), (h + block.y - 1) / block.y);
    for (int i = 0; i < 5; i++) blur<<<grid, block>>>(d_src, d_dst, w, h);
    cudaMemcpy(dst.data(), d_dst, dst.size(), cudaMemcpyDeviceToHost);
    int bad = 0;
    for (size_t i = 0; i < dst.size(); i += 331) {
        int x = i % w, y = i / w;
        double sum = 0.5;
        for (int fy = -RADIUS; fy <= RADIUS; fy++)
            for (int fx = -RADIUS; fx <= RADIUS; fx++) {
                int sx = std::fmin(std::fmax(x + fx, 0), w - 1), sy = std::fmin(std::fmax(y + fy, 0), h - 1);
                sum += src[(size_t)sy * w + sx] * filter[(fy + RADIUS) * WIDTH + fx + RADIUS];
            }
        bad += std::fabs(std::floor(sum) - dst[i]) > 1;
    }
    printf("%d bad pixels\n", bad);
    return bad != 0;
}
