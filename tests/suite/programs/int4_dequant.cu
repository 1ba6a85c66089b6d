// SPDX-License-Identifier: Apache-2.0
// Weights of a language model in four bits, with a scale and a zero point for each group of a row, back to half precision.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t e, int line) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e));
    exit(1);
}
#define CK(x) check((x), __LINE__)

// packed: (rows, cols / 2), the even column in the lower four bits; scales, zeros: (rows, cols / group); out: (rows, cols)
__global__ void dequantize_int4(const unsigned char* packed, const half* scales, const unsigned char* zeros, half* out,
                                int rows, int cols, int group) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;

    int row = i / cols;
    int col = i % cols;
    int g = row * (cols / group) + col / group;

    unsigned char byte = packed[i / 2];
    int q = col % 2 == 0 ? byte & 0xf : byte >> 4;
    float value = (float)(q - zeros[g]) * __half2float(scales[g]);
    out[i] = __float2half(value);
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 12288;
    int cols = argc > 2 ? atoi(argv[2]) : 8192;
    int group = argc > 3 ? atoi(argv[3]) : 128;
    const int block = 256;
    const int layers = 20;
    if (cols % 2 || cols % group) {
        fprintf(stderr, "cols must be even, and a multiple of the group's size\n");
        return 1;
    }

    size_t n = (size_t)rows * cols, groups = n / group;
    std::vector<unsigned char> packed(n / 2), zeros(groups);
    std::vector<half> scales(groups), out(n);
    unsigned s = 2024;
    for (auto& p : packed) p = (s = s * 1664525u + 1013904223u) >> 24;
    for (size_t g = 0; g < groups; g++) {
        s = s * 1664525u + 1013904223u;
        zeros[g] = 6 + (s >> 30);
        scales[g] = __float2half(0.002f + (s >> 8 & 0xffff) * (0.01f / 65536));
    }

    unsigned char *d_packed, *d_zeros;
    half *d_scales, *d_out;
    CK(cudaMalloc(&d_packed, n / 2));
    CK(cudaMalloc(&d_zeros, groups));
    CK(cudaMalloc(&d_scales, groups * sizeof(half)));
    CK(cudaMalloc(&d_out, n * sizeof(half)));
    CK(cudaMemcpy(d_packed, packed.data(), n / 2, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(d_zeros, zeros.data(), groups, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(d_scales, scales.data(), groups * sizeof(half), cudaMemcpyHostToDevice));

    cudaEvent_t begin, end;
    CK(cudaEventCreate(&begin));
    CK(cudaEventCreate(&end));
    CK(cudaEventRecord(begin));
    for (int layer = 0; layer < layers; layer++) {
        dequantize_int4<<<(int)((n + block - 1) / block), block>>>(d_packed, d_scales, d_zeros, d_out, rows, cols, group);
        CK(cudaGetLastError());
    }
    CK(cudaEventRecord(end));
    CK(cudaEventSynchronize(end));
    float ms;
    CK(cudaEventElapsedTime(&ms, begin, end));
    fprintf(stderr, "%f ms for %d layers\n", ms, layers);
    CK(cudaMemcpy(out.data(), d_out, n * sizeof(half), cudaMemcpyDeviceToHost));

    int wrong = 0;
    double sum = 0;
    for (int r = 0; r < rows; r += 1 + rows / 100)
        for (int c = 0; c < cols; c++) {
            size_t i = (size_t)r * cols + c, g = (size_t)r * (cols / group) + c / group;
            int q = packed[i / 2] >> (c % 2 * 4) & 15;
            float want = __half2float(__float2half((q - zeros[g]) * __half2float(scales[g])));
            float got = __half2float(out[i]);
            wrong += got != want;
            sum += got * got;
        }
    CK(cudaFree(d_packed));
    CK(cudaFree(d_zeros));
    CK(cudaFree(d_scales));
    CK(cudaFree(d_out));
    printf("sum of squares %.6f\n%s\n", sum, wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
