// SPDX-License-Identifier: Apache-2.0
// Sobel's edges of a gray image, |gx| + |gy| cut off at 255, a thread a pixel; the border repeats the outermost pixels.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_OK(call)                                                                             \
    do {                                                                                          \
        cudaError_t status_ = (call);                                                             \
        if (status_ != cudaSuccess) {                                                             \
            fprintf(stderr, "%s failed: %s\n", #call, cudaGetErrorString(status_));               \
            exit(2);                                                                              \
        }                                                                                         \
    } while (0)

struct Image {
    int width, height;
    std::vector<unsigned char> pixels;
    Image(int w, int h) : width(w), height(h), pixels((size_t)w * h) {}
    int at(int x, int y) const {
        x = std::min(std::max(x, 0), width - 1);
        y = std::min(std::max(y, 0), height - 1);
        return pixels[(size_t)y * width + x];
    }
};

__global__ void sobel(const unsigned char* in, unsigned char* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;

    int left = max(x - 1, 0), right = min(x + 1, width - 1);
    const unsigned char* above = in + (size_t)max(y - 1, 0) * width;
    const unsigned char* here = in + (size_t)y * width;
    const unsigned char* below = in + (size_t)min(y + 1, height - 1) * width;

    int gx = above[right] + 2 * here[right] + below[right] - above[left] - 2 * here[left] - below[left];
    int gy = below[left] + 2 * below[x] + below[right] - above[left] - 2 * above[x] - above[right];
    out[(size_t)y * width + x] = min(abs(gx) + abs(gy), 255);
}

int main(int argc, char** argv) {
    int width = argc > 1 ? atoi(argv[1]) : 10240;
    int height = argc > 2 ? atoi(argv[2]) : 8192;
    int block_x = argc > 3 ? atoi(argv[3]) : 32;
    int block_y = argc > 4 ? atoi(argv[4]) : 8;

    Image image(width, height), edges(width, height);
    unsigned s = 5;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            s = s * 1664525u + 1013904223u;
            image.pixels[(size_t)y * width + x] = ((x / 40 + y / 24) % 2 ? 180 : 60) + (s >> 27);
        }

    size_t bytes = image.pixels.size();
    unsigned char *d_in, *d_out;
    CUDA_OK(cudaMalloc(&d_in, bytes));
    CUDA_OK(cudaMalloc(&d_out, bytes));
    CUDA_OK(cudaMemcpy(d_in, image.pixels.data(), bytes, cudaMemcpyHostToDevice));

    dim3 block(block_x, block_y);
    dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
    for (int frame = 0; frame < 5; frame++) {
        sobel<<<grid, block>>>(d_in, d_out, width, height);
        CUDA_OK(cudaGetLastError());
    }
    CUDA_OK(cudaMemcpy(edges.pixels.data(), d_out, bytes, cudaMemcpyDeviceToHost));

    int wrong = 0;
    for (int y = 0; y < height; y += (y < 3 || y > height - 4) ? 1 : 1 + height / 200)
        for (int x = 0; x < width; x += (x < 70 || x > width - 70) ? 1 : 7) {
            int gx = image.at(x + 1, y - 1) + 2 * image.at(x + 1, y) + image.at(x + 1, y + 1) - image.at(x - 1, y - 1) -
                     2 * image.at(x - 1, y) - image.at(x - 1, y + 1);
            int gy = image.at(x - 1, y + 1) + 2 * image.at(x, y + 1) + image.at(x + 1, y + 1) - image.at(x - 1, y - 1) -
                     2 * image.at(x, y - 1) - image.at(x + 1, y - 1);
            wrong += edges.at(x, y) != std::min(std::abs(gx) + std::abs(gy), 255);
        }
    CUDA_OK(cudaFree(d_in));
    CUDA_OK(cudaFree(d_out));
    printf("%s\n", wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
