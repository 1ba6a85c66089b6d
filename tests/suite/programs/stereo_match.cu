// SPDX-License-Identifier: Apache-2.0
// Depth from two cameras: for each pixel the shift at which a 9 by 9 window of the left image fits the right one best.
#include <cuda_runtime.h>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(x)                                                                         \
    do {                                                                                 \
        cudaError_t e_ = (x);                                                            \
        if (e_ != cudaSuccess) {                                                         \
            fprintf(stderr, "%s at line %d\n", cudaGetErrorString(e_), __LINE__);        \
            return 2;                                                                    \
        }                                                                                \
    } while (0)

constexpr int RADIUS = 4;
constexpr int DISPARITIES = 64;

// Sums of absolute differences; a border of RADIUS pixels is left as it is.
__global__ void block_match(const unsigned char* left, const unsigned char* right, unsigned char* disparity, int width,
                            int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < RADIUS || y < RADIUS || x >= width - RADIUS || y >= height - RADIUS) return;

    int best = INT_MAX, best_d = 0;
    for (int d = 0; d < DISPARITIES; d++) {
        if (x - d - RADIUS < 0) break;
        int cost = 0;
        for (int dy = -RADIUS; dy <= RADIUS; dy++)
            for (int dx = -RADIUS; dx <= RADIUS; dx++) {
                int l = left[(y + dy) * width + x + dx];
                int r = right[(y + dy) * width + x + dx - d];
                cost += abs(l - r);
            }
        if (cost < best) {
            best = cost;
            best_d = d;
        }
    }
    disparity[y * width + x] = best_d;
}

__global__ void to_depth(const unsigned char* disparity, float* depth, int n, float focal_times_baseline) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) depth[i] = disparity[i] ? focal_times_baseline / disparity[i] : 0.0f;
}

static int on_the_host(const unsigned char* left, const unsigned char* right, int width, int x, int y) {
    int best = INT_MAX, best_d = 0;
    for (int d = 0; d < DISPARITIES && x - d - RADIUS >= 0; d++) {
        int cost = 0;
        for (int v = y - RADIUS; v <= y + RADIUS; v++)
            for (int u = x - RADIUS; u <= x + RADIUS; u++) cost += abs(left[v * width + u] - right[v * width + u - d]);
        if (cost < best) best = cost, best_d = d;
    }
    return best_d;
}

int main(int argc, char** argv) {
    int width = argc > 1 ? atoi(argv[1]) : 1024;
    int height = argc > 2 ? atoi(argv[2]) : 640;
    int block_x = argc > 3 ? atoi(argv[3]) : 32;
    int block_y = argc > 4 ? atoi(argv[4]) : 8;
    int n = width * height;

    // a textured scene; objects of 100 pixels at several distances, and noise in the right image
    std::vector<unsigned char> left(n), right(n), disparity(n);
    unsigned s = 7;
    for (unsigned char& p : left) p = (s = s * 1664525u + 1013904223u) >> 24;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            s = s * 1664525u + 1013904223u;
            int d = 3 + (x / 100 * 7 + y / 100 * 13) % 56;
            int p = x + d < width ? left[y * width + x + d] : s >> 24;
            right[y * width + x] = (p * 15 + (s >> 20 & 0xff)) / 16;
        }

    unsigned char *d_left, *d_right, *d_disparity;
    float* d_depth;
    CHECK(cudaMalloc(&d_left, n));
    CHECK(cudaMalloc(&d_right, n));
    CHECK(cudaMalloc(&d_disparity, n));
    CHECK(cudaMalloc(&d_depth, n * sizeof(float)));
    CHECK(cudaMemcpy(d_left, left.data(), n, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_right, right.data(), n, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_disparity, 0, n));

    dim3 block(block_x, block_y);
    dim3 grid((width + block.x - 1) / block.x, (height + block.y - 1) / block.y);
    for (int frame = 0; frame < 2; frame++) {
        block_match<<<grid, block>>>(d_left, d_right, d_disparity, width, height);
        CHECK(cudaGetLastError());
        to_depth<<<(n + 255) / 256, 256>>>(d_disparity, d_depth, n, 1200.0f);
        CHECK(cudaGetLastError());
    }
    std::vector<float> depth(n);
    CHECK(cudaMemcpy(disparity.data(), d_disparity, n, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(depth.data(), d_depth, n * sizeof(float), cudaMemcpyDeviceToHost));

    int wrong = 0;
    long long sum = 0;
    for (int i = 0; i < n; i++) sum += disparity[i] * (i % 1009);
    int step = n > 100000 ? 997 : 7;
    for (int i = 0; i < n; i += step) {
        int x = i % width, y = i / width;
        bool inside = x >= RADIUS && y >= RADIUS && x < width - RADIUS && y < height - RADIUS;
        int want = inside ? on_the_host(left.data(), right.data(), width, x, y) : 0;
        wrong += disparity[i] != want;
        wrong += want && depth[i] != 1200.0f / want;
    }
    cudaFree(d_left);
    cudaFree(d_right);
    cudaFree(d_disparity);
    cudaFree(d_depth);
    printf("checksum %lld\n%s\n", sum, wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
