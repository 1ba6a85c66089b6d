// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding of a transformer's queries, in half precision: a thread a pair of numbers.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define cudaCheck(err) (cuda_check(err, __LINE__))
inline void cuda_check(cudaError_t err, int line) {
    if (err != cudaSuccess) {
        fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(err));
        exit(EXIT_FAILURE);
    }
}

// x, out: (tokens, heads, dim). Element i of a head turns with element i + dim / 2.
constexpr int kTurns = 256;  // of a token in shared memory, which is up to dim = 512

__device__ __forceinline__ float2 turn(float position, int i, int dim, float base) {
    float angle = position * (1.0f / powf(base, 2.0f * i / dim));
    float2 t;
    sincosf(angle, &t.y, &t.x);
    return t;
}

union Eight {
    uint4 word;
    half2 pair[4];
};

// Roof: DRAM, 4 bytes a number. A block takes a token: its turns are made once for all the heads while the numbers are on
// their way, eight and eight in a thread.
__global__ void __launch_bounds__(256) rotary_embedding(const half* __restrict__ x, half* __restrict__ out,
                                                        const int* __restrict__ positions, int tokens, int heads, int dim,
                                                        float base) {
    __shared__ __align__(16) float2 turns[kTurns];
    const int token = blockIdx.x, half_dim = dim / 2;
    const size_t start = (size_t)token * heads * dim;
    const float position = (float)positions[token];

    if (half_dim % 8 || half_dim > kTurns) {
        for (int idx = threadIdx.x; idx < heads * half_dim; idx += blockDim.x) {
            int i = idx % half_dim;
            size_t at = start + (size_t)(idx / half_dim) * dim + i;
            float2 t = turn(position, i, dim, base);
            float x0 = __half2float(x[at]), x1 = __half2float(x[at + half_dim]);
            out[at] = __float2half(x0 * t.x - x1 * t.y);
            out[at + half_dim] = __float2half(x1 * t.x + x0 * t.y);
        }
        return;
    }

    const int chunks = half_dim / 8, items = heads * chunks;
    int item = threadIdx.x, head = item / chunks, chunk = item % chunks;
    size_t at = start + (size_t)head * dim + chunk * 8;
    Eight low, high;
    if (item < items) {
        low.word = __ldcs((const uint4*)(x + at));
        high.word = __ldcs((const uint4*)(x + at + half_dim));
    }
    for (int i = threadIdx.x; i < half_dim; i += blockDim.x) turns[i] = turn(position, i, dim, base);
    __syncthreads();

    while (item < items) {
        Eight first, second;
#pragma unroll
        for (int q = 0; q < 4; q++) {
            float4 t = *(const float4*)&turns[chunk * 8 + 2 * q];
            float2 x0 = __half22float2(low.pair[q]), x1 = __half22float2(high.pair[q]);
            first.pair[q] = __floats2half2_rn(x0.x * t.x - x1.x * t.y, x0.y * t.z - x1.y * t.w);
            second.pair[q] = __floats2half2_rn(x1.x * t.x + x0.x * t.y, x1.y * t.z + x0.y * t.w);
        }
        __stcs((uint4*)(out + at), first.word);
        __stcs((uint4*)(out + at + half_dim), second.word);

        item += blockDim.x;
        if (item >= items) break;
        head = item / chunks;
        chunk = item % chunks;
        at = start + (size_t)head * dim + chunk * 8;
        low.word = __ldcs((const uint4*)(x + at));
        high.word = __ldcs((const uint4*)(x + at + half_dim));
    }
}

int main(int argc, char** argv) {
    int tokens = argc > 1 ? atoi(argv[1]) : 8192;
    int heads = argc > 2 ? atoi(argv[2]) : 32;
    int dim = argc > 3 ? atoi(argv[3]) : 128;
    int block = argc > 4 ? atoi(argv[4]) : 256;
    const float base = 10000.0f;
    if (dim % 2) {
        fprintf(stderr, "dim must be even\n");
        return 2;
    }
    size_t n = (size_t)tokens * heads * dim;

    std::vector<half> values(512), x(n), out(n);
    for (int i = 0; i < 512; i++) values[i] = __float2half(i / 128.0f - 2.0f);
    unsigned s = 77;
    for (half& h : x) h = values[(s = s * 1664525u + 1013904223u) >> 23];
    std::vector<int> positions(tokens);
    for (int t = 0; t < tokens; t++) positions[t] = t % 4096;  // sequences, packed

    half *d_x, *d_out;
    int* d_positions;
    cudaCheck(cudaMalloc(&d_x, n * sizeof(half)));
    cudaCheck(cudaMalloc(&d_out, n * sizeof(half)));
    cudaCheck(cudaMalloc(&d_positions, tokens * sizeof(int)));
    cudaCheck(cudaMemcpy(d_x, x.data(), n * sizeof(half), cudaMemcpyHostToDevice));
    cudaCheck(cudaMemcpy(d_positions, positions.data(), tokens * sizeof(int), cudaMemcpyHostToDevice));

    for (int layer = 0; layer < 4; layer++) {
        rotary_embedding<<<tokens, 256>>>(d_x, d_out, d_positions, tokens, heads, dim, base);
        cudaCheck(cudaGetLastError());
    }
    cudaCheck(cudaMemcpy(out.data(), d_out, n * sizeof(half), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int t = 0; t < tokens; t += 1 + tokens / 200)
        for (int i = 0; i < dim / 2; i++) {
            double angle = positions[t] * std::pow((double)base, -2.0 * i / dim);
            double c = std::cos(angle), sn = std::sin(angle);
            for (int h = t % 3; h < heads; h += 3) {
                size_t at = ((size_t)t * heads + h) * dim + i;
                double x0 = __half2float(x[at]), x1 = __half2float(x[at + dim / 2]);
                worst = std::fmax(worst, std::fabs(x0 * c - x1 * sn - __half2float(out[at])));
                worst = std::fmax(worst, std::fabs(x1 * c + x0 * sn - __half2float(out[at + dim / 2])));
            }
        }
    cudaCheck(cudaFree(d_x));
    cudaCheck(cudaFree(d_out));
    cudaCheck(cudaFree(d_positions));
    printf("%s\n", worst < 1e-2 ? "ok" : "wrong");
    return worst < 1e-2 ? 0 : 1;
}
