// SPDX-License-Identifier: Apache-2.0
// Embedding bags of a recommender in half precision: for each bag the weighted sum of the rows of a table that it names.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CHECK(x)                                                                \
    do {                                                                             \
        cudaError_t e = (x);                                                         \
        if (e != cudaSuccess) {                                                      \
            fprintf(stderr, "%s, line %d: %s\n", #x, __LINE__, cudaGetErrorString(e)); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

__host__ __device__ inline float initial(unsigned long long i) {
    unsigned h = (unsigned)i * 2654435761u + (unsigned)(i >> 32);
    h = (h ^ (h >> 15)) * 0x2c1b3c6du;
    return (float)(h >> 20) * (1.0f / 2048) - 1.0f;
}

__global__ void init_table(half* table, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) table[i] = __float2half(initial(i));
}

// table: (rows, dim), out: (bags, dim); bag b has indices[offsets[b]] to indices[offsets[b + 1] - 1]. A block a bag.
__global__ void embedding_bag(const half* table, const int* indices, const float* weights, const int* offsets,
                              half* out, int dim) {
    int bag = blockIdx.x;
    int begin = offsets[bag];
    int end = offsets[bag + 1];
    for (int d = threadIdx.x; d < dim; d += blockDim.x) {
        float sum = 0.0f;
        for (int i = begin; i < end; i++) {
            sum += weights[i] * __half2float(table[(size_t)indices[i] * dim + d]);
        }
        out[(size_t)bag * dim + d] = __float2half(sum);
    }
}

int main(int argc, char** argv) {
    int bags = argc > 1 ? atoi(argv[1]) : 80000;
    int rows = argc > 2 ? atoi(argv[2]) : 500000;
    int dim = argc > 3 ? atoi(argv[3]) : 128;
    int block = argc > 4 ? atoi(argv[4]) : 128;

    std::vector<int> offsets(bags + 1);
    unsigned s = 3;
    for (int b = 0; b < bags; b++) {
        s = s * 1664525u + 1013904223u;
        offsets[b + 1] = offsets[b] + (b % 50 == 9 ? 0 : 4 + (s >> 16) % 45);
    }
    int lookups = offsets[bags];
    std::vector<int> indices(lookups);
    std::vector<float> weights(lookups);
    for (int i = 0; i < lookups; i++) {
        s = s * 1664525u + 1013904223u;
        indices[i] = (int)((unsigned long long)s * rows >> 32);
        weights[i] = (s & 1023) * (1.0f / 1024);
    }

    size_t table_size = (size_t)rows * dim, out_size = (size_t)bags * dim;
    half *d_table, *d_out;
    int *d_indices, *d_offsets;
    float* d_weights;
    CUDA_CHECK(cudaMalloc(&d_table, table_size * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&d_out, out_size * sizeof(half)));
    CUDA_CHECK(cudaMalloc(&d_indices, lookups * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_weights, lookups * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_offsets, (bags + 1) * sizeof(int)));
    CUDA_CHECK(cudaMemcpy(d_indices, indices.data(), lookups * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_weights, weights.data(), lookups * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_offsets, offsets.data(), (bags + 1) * sizeof(int), cudaMemcpyHostToDevice));
    init_table<<<(unsigned)((table_size + 255) / 256), 256>>>(d_table, table_size);
    CUDA_CHECK(cudaGetLastError());

    for (int step = 0; step < 4; step++) {
        embedding_bag<<<bags, block>>>(d_table, d_indices, d_weights, d_offsets, d_out, dim);
        CUDA_CHECK(cudaGetLastError());
    }
    half* out = (half*)malloc(out_size * sizeof(half));
    CUDA_CHECK(cudaMemcpy(out, d_out, out_size * sizeof(half), cudaMemcpyDeviceToHost));

    double worst = 0;
    for (int b = 0; b < bags; b += 1 + bags / 100) {
        for (int d = 0; d < dim; d++) {
            double want = 0;
            for (int i = offsets[b]; i < offsets[b + 1]; i++) {
                float value = __half2float(__float2half(initial((unsigned long long)indices[i] * dim + d)));
                want += (double)weights[i] * value;
            }
            double got = __half2float(out[(size_t)b * dim + d]);
            worst = std::fmax(worst, std::fabs(want - got) / (1 + std::fabs(want)));
        }
    }
    free(out);
    CUDA_CHECK(cudaFree(d_table));
    CUDA_CHECK(cudaFree(d_out));
    CUDA_CHECK(cudaFree(d_indices));
    CUDA_CHECK(cudaFree(d_weights));
    CUDA_CHECK(cudaFree(d_offsets));
    printf("%d lookups\n%s\n", lookups, worst < 2e-3 ? "ok" : "wrong");
    return worst < 2e-3 ? 0 : 1;
}
