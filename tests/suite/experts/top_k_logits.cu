// SPDX-License-Identifier: Apache-2.0
// The k most likely tokens for each sequence of a batch, and their probabilities among each other.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_OK(expr)                                                                      \
    {                                                                                      \
        cudaError_t e = (expr);                                                            \
        if (e != cudaSuccess) {                                                            \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e));      \
            return 1;                                                                      \
        }                                                                                  \
    }

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

// larger for larger values
__device__ __forceinline__ unsigned ordered(float x) {
    const unsigned bits = __float_as_uint(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// larger for what comes first: larger values, then smaller indices; zeros are the same whatever their sign
__device__ __forceinline__ unsigned long long rank_key(float x, int index) {
    return (unsigned long long)ordered(x == 0.0f ? 0.0f : x) << 32 | (0xffffffffu - (unsigned)index);
}

__device__ __forceinline__ float value_of(unsigned long long key) {
    const unsigned bits = (unsigned)(key >> 32);
    return __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}

__device__ __forceinline__ half2 as_half2(unsigned bits) { return *(half2*)&bits; }

// One block for each row. The k-th largest of the warps' maxima is a bound: k logits at least are not below it, and few
// more. Only threads whose own maximum reaches it look at their logits again.
__global__ void __launch_bounds__(kThreads)
    top_k_logits(const half* __restrict__ logits, float* __restrict__ values, int* __restrict__ indices, int vocab, int k) {
    __shared__ unsigned maxima[kWarps];
    __shared__ unsigned long long found[kThreads];
    __shared__ unsigned long long best[kWarps];
    __shared__ int count;
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const half* row = logits + (size_t)blockIdx.x * vocab;
    values += (size_t)blockIdx.x * k;
    indices += (size_t)blockIdx.x * k;
    const bool wide = vocab % 8 == 0;
    const uint4* eights = (const uint4*)row;

    float mine = -INFINITY;
    if (wide) {
        const half2 lowest = __float2half2_rn(-INFINITY);
        half2 m[4] = {lowest, lowest, lowest, lowest};
#pragma unroll 4
        for (int i = t; i < vocab / 8; i += kThreads) {
            const uint4 x = eights[i];
            m[0] = __hmax2(m[0], as_half2(x.x));
            m[1] = __hmax2(m[1], as_half2(x.y));
            m[2] = __hmax2(m[2], as_half2(x.z));
            m[3] = __hmax2(m[3], as_half2(x.w));
        }
        const float2 both = __half22float2(__hmax2(__hmax2(m[0], m[1]), __hmax2(m[2], m[3])));
        mine = fmaxf(both.x, both.y);
    } else {
#pragma unroll 4
        for (int i = t; i < vocab; i += kThreads) mine = fmaxf(mine, __half2float(row[i]));
    }
    const unsigned of_warp = __reduce_max_sync(0xffffffffu, ordered(mine));
    if (lane == 0) maxima[warp] = of_warp;
    if (t == 0) count = 0;
    __syncthreads();

    bool listed = k <= kWarps;
    if (listed) {
        // a maximum with fewer than k before it, the smallest of these
        const unsigned candidate = maxima[lane % kWarps];
        int before = 0;
#pragma unroll
        for (int w = 0; w < kWarps; w++) before += maxima[w] > candidate || (maxima[w] == candidate && w < lane % kWarps);
        const unsigned bits = __reduce_min_sync(0xffffffffu, before < k ? candidate : 0xffffffffu);
        const float bound = __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
        if (mine >= bound) {
            auto consider = [&](float x, int i) {
                if (x >= bound) {
                    const int at = atomicAdd(&count, 1);
                    if (at < kThreads) found[at] = rank_key(x, i);
                }
            };
            if (wide) {
                for (int i = t; i < vocab / 8; i += kThreads) {
                    const uint4 x = eights[i];
                    const unsigned pairs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
                    for (int p = 0; p < 4; p++) {
                        const float2 both = __half22float2(as_half2(pairs[p]));
                        consider(both.x, 8 * i + 2 * p);
                        consider(both.y, 8 * i + 2 * p + 1);
                    }
                }
            } else {
                for (int i = t; i < vocab; i += kThreads) consider(__half2float(row[i]), i);
            }
        }
        __syncthreads();
        listed = count <= kThreads;
    }
    if (listed) {
        const int listed_count = count;
        if (t < listed_count) {
            const unsigned long long key = found[t];
            int before = 0;
            for (int i = 0; i < listed_count; i++) before += found[i] > key;
            if (before < k) {
                values[before] = value_of(key);
                indices[before] = (int)(0xffffffffu - (unsigned)key);
            }
        }
        return;
    }

    // many equal logits, or many wanted: round by round
    unsigned long long last = ~0ull;
    for (int round = 0; round < k; round++) {
        unsigned long long key = 0;
        for (int i = t; i < vocab; i += kThreads) {
            const unsigned long long other = rank_key(__half2float(row[i]), i);
            if (other < last && other > key) key = other;
        }
        for (int over = 16; over > 0; over /= 2) {
            const unsigned long long other = __shfl_xor_sync(0xffffffffu, key, over);
            key = other > key ? other : key;
        }
        __syncthreads();
        if (lane == 0) best[warp] = key;
        __syncthreads();
        last = best[0];
        for (int w = 1; w < kWarps; w++) last = best[w] > last ? best[w] : last;
        if (t == 0) {
            values[round] = value_of(last);
            indices[round] = (int)(0xffffffffu - (unsigned)last);
        }
    }
}

__global__ void probabilities(const float* values, float* probs, int rows, int k) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++) sum += expf(values[row * k + i] - values[row * k]);
    for (int i = 0; i < k; i++) probs[row * k + i] = expf(values[row * k + i] - values[row * k]) / sum;
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 2048;
    int vocab = argc > 2 ? atoi(argv[2]) : 32000;
    int k = argc > 3 ? atoi(argv[3]) : 8;
    const int repeats = 15;
    if (k > vocab) return 1;

    std::vector<half> logits((size_t)rows * vocab), levels(3 * 1024);
    for (int i = 0; i < 3 * 1024; i++) levels[i] = __float2half(i * (1.0f / 128.0f) - 12.0f);
    unsigned state = 2025;
    for (half& x : logits) {
        state = state * 1664525u + 1013904223u;
        unsigned a = state >> 22, b = state >> 12 & 1023, c = state >> 2 & 1023;
        x = levels[a + b + c];  // about normal
    }

    half* d_logits;
    float *d_values, *d_probs;
    int* d_indices;
    size_t outputs = (size_t)rows * k;
    CUDA_OK(cudaMalloc(&d_logits, logits.size() * sizeof(half)));
    CUDA_OK(cudaMalloc(&d_values, outputs * sizeof(float)));
    CUDA_OK(cudaMalloc(&d_probs, outputs * sizeof(float)));
    CUDA_OK(cudaMalloc(&d_indices, outputs * sizeof(int)));
    CUDA_OK(cudaMemcpy(d_logits, logits.data(), logits.size() * sizeof(half), cudaMemcpyHostToDevice));

    cudaEvent_t from, to;
    CUDA_OK(cudaEventCreate(&from));
    CUDA_OK(cudaEventCreate(&to));
    CUDA_OK(cudaEventRecord(from));
    for (int repeat = 0; repeat < repeats; repeat++) {
        top_k_logits<<<rows, kThreads>>>(d_logits, d_values, d_indices, vocab, k);
        CUDA_OK(cudaGetLastError());
    }
    CUDA_OK(cudaEventRecord(to));
    probabilities<<<(rows + 127) / 128, 128>>>(d_values, d_probs, rows, k);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
    float ms;
    CUDA_OK(cudaEventElapsedTime(&ms, from, to));
    fprintf(stderr, "top k: %.3f ms\n", ms / repeats);

    std::vector<float> values(outputs), probs(outputs);
    std::vector<int> indices(outputs);
    CUDA_OK(cudaMemcpy(values.data(), d_values, outputs * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_OK(cudaMemcpy(probs.data(), d_probs, outputs * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_OK(cudaMemcpy(indices.data(), d_indices, outputs * sizeof(int), cudaMemcpyDeviceToHost));

    int errors = 0;
    double first = 0, all_indices = 0;
    for (size_t i = 0; i < outputs; i++) all_indices += indices[i];
    for (int row = 0; row < rows; row++) first += probs[(size_t)row * k];
    for (int row = 0; row < rows; row += 1 + rows / 40) {
        const half* x = &logits[(size_t)row * vocab];
        std::vector<int> order(vocab);
        for (int i = 0; i < vocab; i++) order[i] = i;
        std::partial_sort(order.begin(), order.begin() + k, order.end(), [x](int a, int b) {
            float u = __half2float(x[a]), v = __half2float(x[b]);
            return u > v || (u == v && a < b);
        });
        for (int i = 0; i < k; i++) {
            errors += indices[(size_t)row * k + i] != order[i];
            errors += values[(size_t)row * k + i] != __half2float(x[order[i]]);
        }
    }
    cudaFree(d_logits);
    cudaFree(d_values);
    cudaFree(d_probs);
    cudaFree(d_indices);
    printf("mean probability of the first %.5f, sum of indices %.0f\n", first / rows, all_indices);
    printf("%d errors\n", errors);
    return errors != 0;
}
