// SPDX-License-Identifier: Apache-2.0
// Activations from bfloat16 to eight bits, each token with a scale of its own (dynamic quantisation): a thread a token.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cmath>
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

constexpr int kThreads = 128, kHeld = 4;  // of eight numbers each, in a thread's registers

__device__ __forceinline__ float low_of(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_of(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ __forceinline__ float largest_of(float most, uint4 eight) {
    const unsigned pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int q = 0; q < 4; q++) most = fmaxf(most, fmaxf(fabsf(low_of(pairs[q])), fabsf(high_of(pairs[q]))));
    return most;
}

// The nearest integer is in the low bits once 1.5 * 2^23 is added; |v * inv| is at most 127.
__device__ __forceinline__ unsigned rounded(float v, float inv) {
    return __float_as_uint(__fadd_rn(__fmul_rn(v, inv), 12582912.0f));
}

__device__ __forceinline__ unsigned four_bytes(unsigned pair, unsigned next, float inv) {
    unsigned a = __byte_perm(rounded(low_of(pair), inv), rounded(high_of(pair), inv), 0x0040);
    unsigned b = __byte_perm(rounded(low_of(next), inv), rounded(high_of(next), inv), 0x0040);
    return __byte_perm(a, b, 0x5410);
}

// Roof: DRAM, 3 bytes a number. A block takes a row and keeps it in registers, up to 4096 numbers, between the search for
// the largest and the rounding, which needs no conversion instruction.
__global__ void __launch_bounds__(kThreads) quantize_rows(const __nv_bfloat16* __restrict__ x, signed char* __restrict__ q,
                                                          float* __restrict__ scales, int rows, int cols) {
    __shared__ float most_of[kThreads / 32];
    const __nv_bfloat16* in = x + (size_t)blockIdx.x * cols;
    signed char* out = q + (size_t)blockIdx.x * cols;
    const int eights = cols % 8 == 0 ? cols / 8 : 0;  // rows that are not aligned go one by one

    float amax = 0.0f;
    uint4 held[kHeld];
#pragma unroll
    for (int k = 0; k < kHeld; k++) {
        int i = threadIdx.x + k * kThreads;
        held[k] = i < eights ? __ldcs((const uint4*)in + i) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int k = 0; k < kHeld; k++) amax = largest_of(amax, held[k]);
    for (int i = threadIdx.x + kHeld * kThreads; i < eights; i += kThreads) amax = largest_of(amax, ((const uint4*)in)[i]);
    for (int i = eights * 8 + threadIdx.x; i < cols; i += kThreads) amax = fmaxf(amax, fabsf(__bfloat162float(in[i])));

#pragma unroll
    for (int bits = 16; bits > 0; bits /= 2) amax = fmaxf(amax, __shfl_xor_sync(0xffffffffu, amax, bits));
    if (threadIdx.x % 32 == 0) most_of[threadIdx.x / 32] = amax;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < kThreads / 32; w++) amax = fmaxf(amax, most_of[w]);
    const float inv = amax > 0.0f ? 127.0f / amax : 0.0f;

#pragma unroll
    for (int k = 0; k < kHeld; k++) {
        int i = threadIdx.x + k * kThreads;
        if (i < eights)
            __stcs((uint2*)out + i, make_uint2(four_bytes(held[k].x, held[k].y, inv), four_bytes(held[k].z, held[k].w, inv)));
    }
    for (int i = threadIdx.x + kHeld * kThreads; i < eights; i += kThreads) {
        uint4 v = ((const uint4*)in)[i];
        __stcs((uint2*)out + i, make_uint2(four_bytes(v.x, v.y, inv), four_bytes(v.z, v.w, inv)));
    }
    for (int i = eights * 8 + threadIdx.x; i < cols; i += kThreads)
        out[i] = (signed char)rounded(__bfloat162float(in[i]), inv);
    if (threadIdx.x == 0) scales[blockIdx.x] = amax / 127.0f;
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 16384;
    int cols = argc > 2 ? atoi(argv[2]) : 4096;
    int block = argc > 3 ? atoi(argv[3]) : 64;
    size_t n = (size_t)rows * cols;

    std::vector<__nv_bfloat16> values(1024), x(n);
    for (int i = 0; i < 1024; i++) values[i] = __float2bfloat16((i - 512) / 200.0f);
    unsigned s = 13;
    for (size_t i = 0; i < n; i++) x[i] = values[(s = s * 1664525u + 1013904223u) >> 22];
    for (int r = 0; r < rows; r += 7) x[(size_t)r * cols + r % cols] = __float2bfloat16(3.0f + r % 11);  // outliers
    std::vector<signed char> q(n);
    std::vector<float> scales(rows);

    __nv_bfloat16* d_x;
    signed char* d_q;
    float* d_scales;
    CHECK(cudaMalloc(&d_x, n * sizeof(__nv_bfloat16)));
    CHECK(cudaMalloc(&d_q, n));
    CHECK(cudaMalloc(&d_scales, rows * sizeof(float)));
    CHECK(cudaMemcpy(d_x, x.data(), n * sizeof(__nv_bfloat16), cudaMemcpyHostToDevice));

    for (int layer = 0; layer < 4; layer++) {
        quantize_rows<<<rows, kThreads>>>(d_x, d_q, d_scales, rows, cols);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(q.data(), d_q, n, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(scales.data(), d_scales, rows * sizeof(float), cudaMemcpyDeviceToHost));

    int bad = 0;
    for (int r = 0; r < rows; r += rows > 1000 ? 31 : 1) {
        float amax = 0;
        for (int i = 0; i < cols; i++) amax = std::fmax(amax, std::fabs(__bfloat162float(x[(size_t)r * cols + i])));
        if (std::fabs(scales[r] * 127 - amax) > 1e-5f * amax) bad++;
        for (int i = 0; i < cols; i++) {
            size_t at = (size_t)r * cols + i;
            if (std::fabs(q[at] * scales[r] - __bfloat162float(x[at])) > 0.501f * scales[r]) bad++;
        }
    }
    cudaFree(d_x);
    cudaFree(d_q);
    cudaFree(d_scales);
    printf("%s\n", bad ? "wrong" : "ok");
    return bad ? 1 : 0;
}
