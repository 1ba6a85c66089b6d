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

constexpr int kWarps = 4;   // of a block, a bag each
constexpr int kAhead = 4;   // rows that each half of a warp has on their way

// table: (rows, dim), out: (bags, dim); bag b has indices[offsets[b]] to indices[offsets[b + 1] - 1]. A warp a bag: half of
// it takes 128 dimensions of a row, 16 bytes a lane, so that eight rows are loaded at a time.
__global__ void __launch_bounds__(32 * kWarps)
    embedding_bag(const half* __restrict__ table, const int* __restrict__ indices, const float* __restrict__ weights,
                  const int* __restrict__ offsets, half* __restrict__ out, int dim, int bags) {
    const int lane = threadIdx.x % 32;
    const int bag = blockIdx.x * kWarps + threadIdx.x / 32;
    if (bag >= bags) return;
    const int begin = offsets[bag], end = offsets[bag + 1];

    if (dim % 8) {  // rows are not aligned
        for (int d = lane; d < dim; d += 32) {
            float sum = 0.0f;
            for (int i = begin; i < end; i++) sum += weights[i] * __half2float(table[(size_t)indices[i] * dim + d]);
            out[(size_t)bag * dim + d] = __float2half(sum);
        }
        return;
    }

    const int side = lane / 16;
    for (int d0 = 0; d0 < dim; d0 += 128) {
        const int d = d0 + lane % 16 * 8;
        float sum[8] = {};
        for (int first = begin; first < end; first += 32) {
            const int count = min(32, end - first);
            const int index = lane < count ? indices[first + lane] : 0;
            const float weight = lane < count ? weights[first + lane] : 0.0f;
            for (int k = 0; k < count; k += 2 * kAhead) {
                uint4 raw[kAhead];
                float scale[kAhead];
#pragma unroll
                for (int a = 0; a < kAhead; a++) {
                    const int from = k + 2 * a + side;
                    const int row = __shfl_sync(~0u, index, from & 31);
                    scale[a] = __shfl_sync(~0u, weight, from & 31);
                    raw[a] = make_uint4(0, 0, 0, 0);
                    if (from < count && d < dim)
                        raw[a] = *(const uint4*)(table + (size_t)row * dim + d);
                    else
                        scale[a] = 0.0f;
                }
#pragma unroll
                for (int a = 0; a < kAhead; a++) {
                    const half2* pairs = (const half2*)&raw[a];
#pragma unroll
                    for (int p = 0; p < 4; p++) {
                        const float2 two = __half22float2(pairs[p]);
                        sum[2 * p] += scale[a] * two.x;
                        sum[2 * p + 1] += scale[a] * two.y;
                    }
                }
            }
        }
#pragma unroll
        for (int e = 0; e < 8; e++) sum[e] += __shfl_xor_sync(~0u, sum[e], 16);
        if (side == 0 && d < dim) {
            uint4 packed;
            half2* pairs = (half2*)&packed;
#pragma unroll
            for (int p = 0; p < 4; p++) pairs[p] = __floats2half2_rn(sum[2 * p], sum[2 * p + 1]);
            __stcs((uint4*)(out + (size_t)bag * dim + d), packed);
        }
    }
}

int main(int argc, char** argv) {
    int bags = argc > 1 ? atoi(argv[1]) : 80000;
    int rows = argc > 2 ? atoi(argv[2]) : 500000;
    int dim = argc > 3 ? atoi(argv[3]) : 128;

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
        embedding_bag<<<(bags + kWarps - 1) / kWarps, 32 * kWarps>>>(d_table, d_indices, d_weights, d_offsets, d_out, dim, bags);
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
