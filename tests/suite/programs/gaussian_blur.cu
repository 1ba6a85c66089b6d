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

__global__ void blur(const unsigned char* src, unsigned char* dst, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) {
        float sum = 0.0f;
        for (int fy = -RADIUS; fy <= RADIUS; fy++) {
            for (int fx = -RADIUS; fx <= RADIUS; fx++) {
                int sx = min(max(x + fx, 0), w - 1);
                int sy = min(max(y + fy, 0), h - 1);
                sum += src[sy * w + sx] * d_filter[(fy + RADIUS) * WIDTH + fx + RADIUS];
            }
        }
        dst[y * w + x] = (unsigned char)(sum + 0.5f);
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
    dim3 block(16, 16), grid((w + block.x - 1) / block.x, (h + block.y - 1) / block.y);
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
