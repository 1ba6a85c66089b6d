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

// width and height are multiples of 8
__global__ void forward_dct(const float* image, float* coefs, int width, int height) {
    __shared__ float tile[8][8];
    __shared__ float half_done[8][8];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * 8 + tx;
    int y = blockIdx.y * 8 + ty;

    tile[ty][tx] = image[(size_t)y * width + x] - 128.0f;
    __syncthreads();

    float sum = 0.0f;
    for (int k = 0; k < 8; k++) sum += tile[ty][k] * basis[tx][k];
    half_done[ty][tx] = sum;
    __syncthreads();

    sum = 0.0f;
    for (int k = 0; k < 8; k++) sum += half_done[k][tx] * basis[ty][k];
    coefs[(size_t)y * width + x] = sum;
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
        forward_dct<<<dim3(width / 8, height / 8), dim3(8, 8)>>>(d_image, d_coefs, width, height);
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
