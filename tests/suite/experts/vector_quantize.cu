// SPDX-License-Identifier: Apache-2.0
// Vector quantisation: each vector gets the index of the nearest entry of a codebook, and entries are counted.
#include <cuda_runtime.h>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
        exit(EXIT_FAILURE);
    }
}

constexpr int kVectors = 64, kCodes = 128, kDims = 32;  // of a tile; a thread has 4 vectors by 8 codes of it
constexpr int kThreads = 256;

// vectors: (count, dim), codebook: (codes, dim)
__global__ void __launch_bounds__(kThreads, 3)
    nearest_code(const float* __restrict__ vectors, const float* __restrict__ codebook, int* __restrict__ nearest,
                 float* __restrict__ error, int count, int codes, int dim) {
    __shared__ __align__(16) float tile[kDims][kVectors + 4];
    __shared__ __align__(16) float entries[kDims][kCodes + 4];
    const int first = blockIdx.x * kVectors;
    const int group = threadIdx.x / 16, part = threadIdx.x % 16;
    const int d_load = threadIdx.x % 32, row_load = threadIdx.x / 32;

    float best[4] = {FLT_MAX, FLT_MAX, FLT_MAX, FLT_MAX};
    int code[4] = {0, 0, 0, 0};
    for (int c0 = 0; c0 < codes; c0 += kCodes) {
        float sum[4][8] = {};
        for (int d0 = 0; d0 < dim; d0 += kDims) {
            const int d = d0 + d_load;
            __syncthreads();
            if (c0 == 0 || dim > kDims) {
#pragma unroll 4
                for (int row = row_load; row < kVectors; row += kThreads / 32)
                    tile[d_load][row] = d < dim && first + row < count ? vectors[(size_t)(first + row) * dim + d] : 0.0f;
            }
#pragma unroll 4
            for (int row = row_load; row < kCodes; row += kThreads / 32)
                entries[d_load][row] = d < dim && c0 + row < codes ? codebook[(size_t)(c0 + row) * dim + d] : 0.0f;
            __syncthreads();
#pragma unroll 4
            for (int k = 0; k < kDims; k++) {
                const float4 v = *(const float4*)&tile[k][4 * group];
                const float4 low = *(const float4*)&entries[k][4 * part];
                const float4 high = *(const float4*)&entries[k][kCodes / 2 + 4 * part];
                const float mine[4] = {v.x, v.y, v.z, v.w};
                const float theirs[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int j = 0; j < 8; j++) {
                        const float diff = mine[i] - theirs[j];
                        sum[i][j] += diff * diff;
                    }
            }
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const int c = c0 + j / 4 * (kCodes / 2) + 4 * part + j % 4;
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (c < codes && sum[i][j] < best[i]) {
                    best[i] = sum[i][j];
                    code[i] = c;
                }
        }
    }

    // of equal ones the first, as if they came in order
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int by = 8; by > 0; by /= 2) {
            const float other = __shfl_xor_sync(~0u, best[i], by);
            const int its = __shfl_xor_sync(~0u, code[i], by);
            if (other < best[i] || (other == best[i] && its < code[i])) {
                best[i] = other;
                code[i] = its;
            }
        }
        const int at = first + 4 * group + i;
        if (part == 0 && at < count) {
            nearest[at] = code[i];
            error[at] = best[i];
        }
    }
}

__global__ void count_codes(const int* nearest, int* used, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) atomicAdd(&used[nearest[i]], 1);
}

int main(int argc, char** argv) {
    int count = argc > 1 ? atoi(argv[1]) : 50000;
    int codes = argc > 2 ? atoi(argv[2]) : 256;
    int dim = argc > 3 ? atoi(argv[3]) : 32;

    std::vector<float> codebook((size_t)codes * dim), vectors((size_t)count * dim);
    unsigned s = 17;
    for (float& v : codebook) v = ((s = s * 1664525u + 1013904223u) >> 8) * (2.0f / (1 << 24)) - 1.0f;
    for (int i = 0; i < count; i++) {  // an entry and noise
        const float* entry = &codebook[(size_t)((i * 2654435761u >> 8) % codes) * dim];
        float* v = &vectors[(size_t)i * dim];
        for (int d = 0; d < dim; d++) v[d] = entry[d] + ((s = s * 1664525u + 1013904223u) >> 8) * (1.0f / (1 << 24)) - 0.5f;
    }

    float *d_vectors, *d_codebook, *d_error;
    int *d_nearest, *d_used;
    check(cudaMalloc(&d_vectors, vectors.size() * sizeof(float)), "vectors");
    check(cudaMalloc(&d_codebook, codebook.size() * sizeof(float)), "codebook");
    check(cudaMalloc(&d_error, count * sizeof(float)), "error");
    check(cudaMalloc(&d_nearest, count * sizeof(int)), "nearest");
    check(cudaMalloc(&d_used, codes * sizeof(int)), "used");
    check(cudaMemcpy(d_vectors, vectors.data(), vectors.size() * sizeof(float), cudaMemcpyHostToDevice), "copy");
    check(cudaMemcpy(d_codebook, codebook.data(), codebook.size() * sizeof(float), cudaMemcpyHostToDevice), "copy");
    check(cudaMemset(d_used, 0, codes * sizeof(int)), "memset");

    int blocks = (count + kVectors - 1) / kVectors;
    nearest_code<<<blocks, kThreads>>>(d_vectors, d_codebook, d_nearest, d_error, count, codes, dim);
    check(cudaGetLastError(), "nearest_code");
    count_codes<<<(count + 255) / 256, 256>>>(d_nearest, d_used, count);
    check(cudaGetLastError(), "count_codes");

    std::vector<int> nearest(count), used(codes);
    std::vector<float> error(count);
    check(cudaMemcpy(nearest.data(), d_nearest, count * sizeof(int), cudaMemcpyDeviceToHost), "nearest");
    check(cudaMemcpy(error.data(), d_error, count * sizeof(float), cudaMemcpyDeviceToHost), "error");
    check(cudaMemcpy(used.data(), d_used, codes * sizeof(int), cudaMemcpyDeviceToHost), "used");

    int most = 0, all = 0, wrong = 0;
    for (int u : used) {
        all += u;
        most = u > most ? u : most;
    }
    double sum = 0;
    for (float e : error) sum += e;
    for (int i = 0; i < count; i += 1 + count / 100) {
        double best = 1e30, given = 0;
        for (int c = 0; c < codes; c++) {
            double distance = 0;
            for (int d = 0; d < dim; d++) {
                double diff = (double)vectors[(size_t)i * dim + d] - codebook[(size_t)c * dim + d];
                distance += diff * diff;
            }
            best = std::fmin(best, distance);
            if (c == nearest[i]) given = distance;
        }
        // the nearest, but for rounding
        wrong += !(given <= best * (1 + 1e-5) && std::fabs(given - error[i]) <= 1e-4 * given + 1e-6);
    }
    wrong += all != count;
    cudaFree(d_vectors);
    cudaFree(d_codebook);
    cudaFree(d_error);
    cudaFree(d_nearest);
    cudaFree(d_used);
    printf("mean error %.5f, most used %d times\n%s\n", sum / count, most, wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
