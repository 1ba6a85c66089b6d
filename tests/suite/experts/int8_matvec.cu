// SPDX-License-Identifier: Apache-2.0
// The last layer of a language model with weights of eight bits: y = scale * (W x), activations in half precision.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

inline void check(cudaError_t e) {
    if (e != cudaSuccess) {
        fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
        exit(2);
    }
}

// weights: (rows, cols), row-major, a scale for each row; a thread a row
constexpr int kRows = 4;   // of a warp
constexpr int kWarps = 4;  // of a block

// Four signed bytes, with their signs flipped: as the low bytes of floats of 2^23 and more they need no conversion.
__device__ __forceinline__ void widen(unsigned word, float out[4]) {
    word ^= 0x80808080u;
#pragma unroll
    for (int q = 0; q < 4; q++) out[q] = __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440 + q)) - 8388736.0f;
}

// Roof: DRAM, a byte a weight. A warp takes four rows, a lane 16 columns of each at a time; the activations are converted
// once for the four. About 3.5 instructions a weight, of the 6 that fit into the memory's time.
__global__ void __launch_bounds__(32 * kWarps) int8_gemv(const int8_t* __restrict__ weights, const float* __restrict__ scales,
                                                         const half* __restrict__ x, half* __restrict__ y, int rows,
                                                         int cols) {
    const int lane = threadIdx.x % 32;
    const int first = (blockIdx.x * kWarps + threadIdx.x / 32) * kRows;
    if (first >= rows) return;
    float sum[kRows] = {};
    const int8_t* row[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) row[r] = weights + (size_t)min(first + r, rows - 1) * cols;

    if (cols % 16 == 0) {
#pragma unroll 2
        for (int c = lane * 16; c < cols; c += 32 * 16) {
            uint4 w[kRows];
#pragma unroll
            for (int r = 0; r < kRows; r++) w[r] = __ldcs((const uint4*)(row[r] + c));
            uint4 packed[2] = {*(const uint4*)(x + c), *(const uint4*)(x + c + 8)};
            float v[16];
#pragma unroll
            for (int q = 0; q < 8; q++) {
                float2 two = __half22float2(((const half2*)packed)[q]);
                v[2 * q] = two.x;
                v[2 * q + 1] = two.y;
            }
#pragma unroll
            for (int r = 0; r < kRows; r++) {
                const unsigned words[4] = {w[r].x, w[r].y, w[r].z, w[r].w};
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    float wide[4];
                    widen(words[q], wide);
#pragma unroll
                    for (int e = 0; e < 4; e++) sum[r] += wide[e] * v[4 * q + e];
                }
            }
        }
    } else {
        for (int c = lane; c < cols; c += 32) {
            float v = __half2float(x[c]);
#pragma unroll
            for (int r = 0; r < kRows; r++) sum[r] += (float)row[r][c] * v;
        }
    }

#pragma unroll
    for (int r = 0; r < kRows; r++) {
#pragma unroll
        for (int bits = 16; bits > 0; bits /= 2) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], bits);
        if (lane == r && first + r < rows) y[first + r] = __float2half(sum[r] * scales[first + r]);
    }
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 50257;
    int cols = argc > 2 ? atoi(argv[2]) : 4096;
    int block = argc > 3 ? atoi(argv[3]) : 128;
    size_t n = (size_t)rows * cols;

    std::vector<int8_t> weights(n);
    for (size_t i = 0; i < n; i++) weights[i] = (int8_t)((uint32_t)i * 2654435761u >> 24);
    std::vector<float> scales(rows);
    for (int r = 0; r < rows; r++) scales[r] = (1 + r % 9) * 1e-4f;
    std::vector<half> x(cols), y(rows);
    unsigned s = 3;
    for (half& h : x) h = __float2half(((s = s * 69069u + 1u) >> 20) / 2048.0f - 1.0f);

    int8_t* d_weights;
    float* d_scales;
    half *d_x, *d_y;
    check(cudaMalloc(&d_weights, n));
    check(cudaMalloc(&d_scales, rows * sizeof(float)));
    check(cudaMalloc(&d_x, cols * sizeof(half)));
    check(cudaMalloc(&d_y, rows * sizeof(half)));
    check(cudaMemcpy(d_weights, weights.data(), n, cudaMemcpyHostToDevice));
    check(cudaMemcpy(d_scales, scales.data(), rows * sizeof(float), cudaMemcpyHostToDevice));
    check(cudaMemcpy(d_x, x.data(), cols * sizeof(half), cudaMemcpyHostToDevice));

    for (int token = 0; token < 6; token++) {
        int8_gemv<<<(rows + kRows * kWarps - 1) / (kRows * kWarps), 32 * kWarps>>>(d_weights, d_scales, d_x, d_y, rows, cols);
        check(cudaGetLastError());
    }
    check(cudaMemcpy(y.data(), d_y, rows * sizeof(half), cudaMemcpyDeviceToHost));

    int wrong = 0;
    for (int r = 0; r < rows; r += rows > 1000 ? 97 : 1) {
        double want = 0;
        for (int c = 0; c < cols; c++) want += weights[(size_t)r * cols + c] * (double)__half2float(x[c]);
        want *= scales[r];
        if (!(std::fabs(want - __half2float(y[r])) < 2e-3 + 1e-3 * std::fabs(want))) wrong++;
    }
    check(cudaFree(d_weights));
    check(cudaFree(d_scales));
    check(cudaFree(d_x));
    check(cudaFree(d_y));
    printf("%s\n", wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
