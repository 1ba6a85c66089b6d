// SPDX-License-Identifier: Apache-2.0
// Grey dilation of a depth map: the largest value within a square window around each pixel.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define RADIUS 7

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t err = (call);                                                        \
        if (err != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(2);                                                                     \
        }                                                                                \
    } while (0)

__global__ void dilate(const float* in, float* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;

    float best = in[y * width + x];
    for (int dy = -RADIUS; dy <= RADIUS; dy++) {
        for (int dx = -RADIUS; dx <= RADIUS; dx++) {
            int xx = x + dx, yy = y + dy;
            if (xx >= 0 && xx < width && yy >= 0 && yy < height) {
                best = fmaxf(best, in[yy * width + xx]);
            }
        }
    }
    out[y * width + x] = best;
}

int main(int argc, char** argv) {
    int width = argc > 1 ? atoi(argv[1]) : 6144;
    int height = argc > 2 ? atoi(argv[2]) : 4096;
    size_t n = (size_t)width * height;

    std::vector<float> depth(n), dilated(n);
    unsigned s = 29;
    for (float& d : depth) d = ((s = s * 1664525u + 1013904223u) >> 8) * (10.0f / (1 << 24)) - 2.0f;

    float *d_in, *d_out;
    CHECK(cudaMalloc(&d_in, n * sizeof(float)));
    CHECK(cudaMalloc(&d_out, n * sizeof(float)));
    CHECK(cudaMemcpy(d_in, depth.data(), n * sizeof(float), cudaMemcpyHostToDevice));

    dim3 block(16, 16);
    dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
    for (int frame = 0; frame < 4; frame++) {
        dilate<<<grid, block>>>(d_in, d_out, width, height);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(dilated.data(), d_out, n * sizeof(float), cudaMemcpyDeviceToHost));

    int wrong = 0;
    for (size_t i = 0; i < n; i += n > 100000 ? 127 : 1) {
        int x = (int)(i % width), y = (int)(i / width);
        float want = depth[i];
        for (int yy = y - RADIUS; yy <= y + RADIUS; yy++)
            for (int xx = x - RADIUS; xx <= x + RADIUS; xx++)
                if (xx >= 0 && xx < width && yy >= 0 && yy < height) want = std::fmax(want, depth[(size_t)yy * width + xx]);
        wrong += want != dilated[i];
    }
    CHECK(cudaFree(d_in));
    CHECK(cudaFree(d_out));
    printf("%s\n", wrong == 0 ? "ok" : "wrong");
    return wrong == 0 ? 0 : 1;
}
