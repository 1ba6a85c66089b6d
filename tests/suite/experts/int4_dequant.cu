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

constexpr int kThreads = 256;
constexpr int kWords = 4;  // of eight weights, that a thread has on their way

__device__ __forceinline__ half2 as_half2(unsigned bits) { return *(half2*)&bits; }
__device__ __forceinline__ unsigned as_bits(half2 pair) { return *(unsigned*)&pair; }

// packed: (rows, cols / 2), the even column in the lower four bits; scales, zeros: (rows, cols / group); out: (rows, cols).
// A thread makes eight weights of a word. 0x6400 is 1024 in half precision: a weight put into its last bits adds itself.
__global__ void __launch_bounds__(kThreads)
    dequantize_int4(const unsigned char* __restrict__ packed, const half* __restrict__ scales,
                    const unsigned char* __restrict__ zeros, half* __restrict__ out, int rows, int cols, int group) {
    const int groups = cols / group;
    const int first = blockIdx.x * kThreads * kWords + threadIdx.x;
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        half* to = out + (size_t)row * cols;
        if (cols % 8 || group % 8) {  // a word is of several rows or groups
            const unsigned char* from = packed + (size_t)row * (cols / 2);
            for (int c = 8 * first; c < cols; c += 8 * kThreads) {
                if (c >= 8 * (int)(blockIdx.x + 1) * kThreads * kWords) break;
                for (int col = c; col < min(c + 8, cols); col++) {
                    const int g = row * groups + col / group, q = from[col / 2] >> (col % 2 * 4) & 15;
                    to[col] = __float2half((float)(q - zeros[g]) * __half2float(scales[g]));
                }
            }
            continue;
        }

        const unsigned* from = (const unsigned*)packed + (size_t)row * (cols / 8);
        unsigned word[kWords];
#pragma unroll
        for (int k = 0; k < kWords; k++) {
            const int at = first + k * kThreads;
            word[k] = at < cols / 8 ? __ldcs(from + at) : 0;
        }
#pragma unroll
        for (int k = 0; k < kWords; k++) {
            const int at = first + k * kThreads;
            if (at >= cols / 8) break;
            const int g = row * groups + 8 * at / group;
            const half2 scale = __half2half2(scales[g]);
            const half2 zero = as_half2(0x64006400u + zeros[g] * 0x00010001u);
            unsigned pair[4];  // columns 0 and 4, 1 and 5, 2 and 6, 3 and 7
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const half2 raised = as_half2((word[k] >> 4 * c & 0x000f000fu) | 0x64006400u);
                pair[c] = as_bits(__hmul2(__hsub2(raised, zero), scale));
            }
            __stcs((uint4*)to + at,
                   make_uint4(__byte_perm(pair[0], pair[1], 0x5410), __byte_perm(pair[2], pair[3], 0x5410),
                              __byte_perm(pair[0], pair[1], 0x7632), __byte_perm(pair[2], pair[3], 0x7632)));
        }
    }
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 12288;
    int cols = argc > 2 ? atoi(argv[2]) : 8192;
    int group = argc > 3 ? atoi(argv[3]) : 128;
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
        dim3 grid((cols + 8 * kThreads * kWords - 1) / (8 * kThreads * kWords), rows < 65535 ? rows : 65535);
        dequantize_int4<<<grid, kThreads>>>(d_packed, d_scales, d_zeros, d_out, rows, cols, group);
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
