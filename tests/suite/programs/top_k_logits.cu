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

#define BLOCK 256

// One block for each row. In each round the largest logit is found that comes after the one of the round before;
// of equal ones that with the smaller index comes first.
__global__ void top_k_logits(const half* logits, float* values, int* indices, int vocab, int k) {
    __shared__ float best_value[BLOCK];
    __shared__ int best_index[BLOCK];
    const half* row = logits + (size_t)blockIdx.x * vocab;
    float last_value = INFINITY;
    int last_index = -1;

    for (int round = 0; round < k; round++) {
        float value = -INFINITY;
        int index = vocab;
        for (int i = threadIdx.x; i < vocab; i += BLOCK) {
            float x = __half2float(row[i]);
            bool still_there = x < last_value || (x == last_value && i > last_index);
            if (still_there && x > value) {
                value = x;
                index = i;
            }
        }
        best_value[threadIdx.x] = value;
        best_index[threadIdx.x] = index;
        __syncthreads();
        for (int s = BLOCK / 2; s > 0; s /= 2) {
            if (threadIdx.x < s) {
                float v = best_value[threadIdx.x + s];
                int j = best_index[threadIdx.x + s];
                if (v > best_value[threadIdx.x] || (v == best_value[threadIdx.x] && j < best_index[threadIdx.x])) {
                    best_value[threadIdx.x] = v;
                    best_index[threadIdx.x] = j;
                }
            }
            __syncthreads();
        }
        last_value = best_value[0];
        last_index = best_index[0];
        if (threadIdx.x == 0) {
            values[blockIdx.x * k + round] = last_value;
            indices[blockIdx.x * k + round] = last_index;
        }
        __syncthreads();
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
        top_k_logits<<<rows, BLOCK>>>(d_logits, d_values, d_indices, vocab, k);
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
