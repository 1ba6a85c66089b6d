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

constexpr int kTileX = 128, kTileY = 64, kRun = 16;
constexpr int kWindow = 2 * RADIUS + 1, kTall = kTileY + 2 * RADIUS;

constexpr int kWide = kTileX + 16, kFours = kWide / 4;  // of a row with its border, in fours

__device__ __forceinline__ float4 four_of(const float* in, int x, int y, int width, int height) {
    float4 v = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    if (y < 0 || y >= height) return v;
    const float* row = in + (size_t)y * width;
    if (width % 4 == 0) {
        if (x >= 0 && x < width) v = *(const float4*)(row + x);
    } else {
        if (x >= 0 && x < width) v.x = row[x];
        if (x + 1 >= 0 && x + 1 < width) v.y = row[x + 1];
        if (x + 2 >= 0 && x + 2 < width) v.z = row[x + 2];
        if (x + 3 >= 0 && x + 3 < width) v.w = row[x + 3];
    }
    return v;
}

// Roof: DRAM, 8 bytes a pixel. The window's maximum is that of its columns' maxima: a block brings its pixels and their
// border to shared memory, a warp makes the maxima along a row, four pixels a lane, in their place; then a thread makes 16
// pixels of a column from the maxima ahead of and behind a cut. About ten comparisons a pixel, of the 25 that fit into the
// memory's time.
__global__ void __launch_bounds__(256, 4) dilate(const float* __restrict__ in, float* __restrict__ out, int width,
                                                 int height) {
    static_assert(RADIUS == 7, "a lane's five words and the cut are made for 15 pixels");
    __shared__ __align__(16) float rows[kTall][kWide];
    const int x0 = blockIdx.x * kTileX, y0 = blockIdx.y * kTileY;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    constexpr int kBatch = 4;
#pragma unroll 1
    for (int first = threadIdx.x; first < kTall * kFours; first += kBatch * 256) {
        float4 v[kBatch];
#pragma unroll
        for (int q = 0; q < kBatch; q++) {
            const int i = first + q * 256, r = i / kFours;
            v[q] = four_of(in, x0 - 8 + 4 * (i - r * kFours), r < kTall ? y0 - RADIUS + r : -1, width, height);
        }
#pragma unroll
        for (int q = 0; q < kBatch; q++)
            if (first + q * 256 < kTall * kFours) *((float4*)&rows[0][0] + first + q * 256) = v[q];
    }
    __syncthreads();

    for (int r = warp; r < kTall; r += 8) {
        float v[20];
#pragma unroll
        for (int q = 0; q < 5; q++) {
            const float4 t = *(const float4*)&rows[r][4 * (lane + q)];
            v[4 * q] = t.x, v[4 * q + 1] = t.y, v[4 * q + 2] = t.z, v[4 * q + 3] = t.w;
        }
        __syncwarp();  // before the row is written
        float common = fmaxf(v[4], v[5]);
#pragma unroll
        for (int k = 6; k <= 15; k++) common = fmaxf(common, v[k]);
        const float before = fmaxf(v[2], v[3]), behind = fmaxf(v[16], v[17]);
        float4 most;
        most.x = fmaxf(common, fmaxf(before, v[1]));
        most.y = fmaxf(common, fmaxf(before, v[16]));
        most.z = fmaxf(common, fmaxf(behind, v[3]));
        most.w = fmaxf(common, fmaxf(behind, v[18]));
        *(float4*)&rows[r][4 * lane] = most;
    }
    __syncthreads();

    const int column = threadIdx.x % kTileX, x = x0 + column;
    if (x >= width) return;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int first = (threadIdx.x / kTileX + 2 * half) * kRun;
        float v[kRun + kWindow - 1];
#pragma unroll
        for (int k = 0; k < kRun + kWindow - 1; k++) v[k] = rows[first + k][column];
        // v[k] becomes the maximum of v[k..14], and from 15 on that of v[15..k]
#pragma unroll
        for (int k = kWindow - 2; k >= 0; k--) v[k] = fmaxf(v[k], v[k + 1]);
#pragma unroll
        for (int k = kWindow + 1; k < kRun + kWindow - 1; k++) v[k] = fmaxf(v[k], v[k - 1]);
#pragma unroll
        for (int k = 0; k < kRun; k++) {
            const int y = y0 + first + k;
            float most = k == 0 ? v[0] : k == kRun - 1 ? v[kRun + kWindow - 2] : fmaxf(v[k], v[k + kWindow - 1]);
            if (y < height) __stcs(out + (size_t)y * width + x, most);
        }
    }
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

    for (int frame = 0; frame < 4; frame++) {
        dilate<<<dim3((width + kTileX - 1) / kTileX, (height + kTileY - 1) / kTileY), 256>>>(d_in, d_out, width, height);
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
