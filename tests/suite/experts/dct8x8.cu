// SPDX-License-Identifier: Apache-2.0
// The forward DCT of JPEG: an image in blocks of 8 by 8, a thread a coefficient, rows and then columns.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t err = (call);                                                        \
        if (err != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(2);                                                                     \
        }                                                                                \
    } while (0)

// basis[u][x] = c(u) cos((2x + 1) u pi / 16), orthonormal
__constant__ float basis[8][8];

// In place; even coefficients come of the sums of mirrored samples, odd ones of their differences.
__device__ __forceinline__ void dct8(float (&v)[8]) {
    float sums[4], differences[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        sums[k] = v[k] + v[7 - k];
        differences[k] = v[k] - v[7 - k];
    }
#pragma unroll
    for (int u = 0; u < 8; u += 2) {
        float even = 0.0f, odd = 0.0f;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            even += basis[u][k] * sums[k];
            odd += basis[u + 1][k] * differences[k];
        }
        v[u] = even;
        v[u + 1] = odd;
    }
}

constexpr int kWarps = 8;

// width and height are multiples of 8. A warp takes 32 columns of 8 rows: a thread a column, then, after a transpose
// of each block in shared memory, a row.
__global__ void __launch_bounds__(32 * kWarps) forward_dct(const float* __restrict__ image, float* __restrict__ coefs,
                                                           int width, int height) {
    __shared__ float tiles[kWarps][8][33];
    float(&tile)[8][33] = tiles[threadIdx.y];
    int lane = threadIdx.x;
    int x = blockIdx.x * 32 + lane;
    int y = (blockIdx.y * kWarps + threadIdx.y) * 8;
    if (y >= height) return;
    size_t at = (size_t)y * width + x;

    float v[8];
#pragma unroll
    for (int r = 0; r < 8; r++) v[r] = x < width ? __ldcs(&image[at + (size_t)r * width]) - 128.0f : 0.0f;
    dct8(v);
#pragma unroll
    for (int r = 0; r < 8; r++) tile[r][lane] = v[r];
    __syncwarp();

    int row = lane % 8, left = lane - row;
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = tile[row][left + k];
    dct8(v);
#pragma unroll
    for (int k = 0; k < 8; k++) tile[row][left + k] = v[k];
    __syncwarp();

    if (x < width) {
#pragma unroll
        for (int r = 0; r < 8; r++) __stcs(&coefs[at + (size_t)r * width], tile[r][lane]);
    }
}

int main(int argc, char** argv) {
    int width = argc > 1 ? atoi(argv[1]) : 6144;
    int height = argc > 2 ? atoi(argv[2]) : 4096;
    int repeats = argc > 3 ? atoi(argv[3]) : 5;
    if (width % 8 || height % 8) {
        fprintf(stderr, "width and height must be multiples of 8\n");
        return 2;
    }
    size_t n = (size_t)width * height;

    float table[8][8];
    for (int u = 0; u < 8; u++)
        for (int x = 0; x < 8; x++)
            table[u][x] = (float)((u ? 0.5 : std::sqrt(0.125)) * std::cos((2 * x + 1) * u * M_PI / 16));

    std::vector<float> image(n), coefs(n);
    unsigned s = 11;
    for (float& p : image) p = (float)((s = s * 1664525u + 1013904223u) >> 24);

    float *d_image, *d_coefs;
    CHECK(cudaMalloc(&d_image, n * sizeof(float)));
    CHECK(cudaMalloc(&d_coefs, n * sizeof(float)));
    CHECK(cudaMemcpy(d_image, image.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyToSymbol(basis, table, sizeof(table)));

    for (int r = 0; r < repeats; r++) {
        forward_dct<<<dim3((width + 31) / 32, (height + 63) / 64), dim3(32, 8)>>>(d_image, d_coefs, width, height);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(coefs.data(), d_coefs, n * sizeof(float), cudaMemcpyDeviceToHost));

    double worst = 0;
    int blocks_x = width / 8, blocks = blocks_x * (height / 8);
    for (int b = 0; b < blocks; b += 1 + blocks / 300) {
        size_t at = (size_t)(b / blocks_x) * 8 * width + (b % blocks_x) * 8;
        for (int v = 0; v < 8; v++)
            for (int u = 0; u < 8; u++) {
                double want = 0;
                for (int y = 0; y < 8; y++)
                    for (int x = 0; x < 8; x++)
                        want += (image[at + (size_t)y * width + x] - 128.0) * table[v][y] * table[u][x];
                worst = std::fmax(worst, std::fabs(want - coefs[at + (size_t)v * width + u]));
            }
    }
    CHECK(cudaFree(d_image));
    CHECK(cudaFree(d_coefs));
    printf("%s\n", worst < 1e-2 ? "ok" : "wrong");
    return worst < 1e-2 ? 0 : 1;
}
