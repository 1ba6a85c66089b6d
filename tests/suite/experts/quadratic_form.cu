// SPDX-License-Identifier: Apache-2.0
// The quadratic form x'Ax of many vectors with one matrix, as for the energy of sampled states, and the lowest of all.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void cuda_ok(cudaError_t status) {
    if (status != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(status));
        exit(EXIT_FAILURE);
    }
}

constexpr int kVectors = 128, kRows = 64, kDepth = 32;  // of a tile; a thread has 8 vectors by 8 rows of it
constexpr int kThreads = 128;

// matrix: (dim, dim), vectors: (dim, count), one component of all vectors after the other. A block forms 64 rows of Ax for
// its vectors at a time, then multiplies by x and adds up.
__global__ void __launch_bounds__(kThreads, 4)
    quadratic_form(const float* __restrict__ matrix, const float* __restrict__ vectors, float* __restrict__ energy, int dim,
                   int count) {
    __shared__ __align__(16) float tile[kDepth][kVectors];
    __shared__ __align__(16) float rows[kDepth][kRows + 4];
    const int first = blockIdx.x * kVectors;
    const int group = threadIdx.x / 16, part = threadIdx.x % 16;  // eight rows; four vectors, and four of the other half
    const bool whole = count % 4 == 0 && first + kVectors <= count;

    float sum[8] = {};
    for (int r0 = 0; r0 < dim; r0 += kRows) {
        float acc[8][8] = {};
        for (int c0 = 0; c0 < dim; c0 += kDepth) {
            __syncthreads();
            if (whole) {
                const int v = 4 * (threadIdx.x % 32);
#pragma unroll
                for (int k = threadIdx.x / 32; k < kDepth; k += kThreads / 32)
                    *(float4*)&tile[k][v] = c0 + k < dim ? *(const float4*)&vectors[(size_t)(c0 + k) * count + first + v]
                                                         : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            } else {
                const int v = threadIdx.x;
                for (int k = 0; k < kDepth; k++)
                    tile[k][v] = c0 + k < dim && first + v < count ? vectors[(size_t)(c0 + k) * count + first + v] : 0.0f;
            }
#pragma unroll 8
            for (int r = threadIdx.x / 32; r < kRows; r += kThreads / 32) {
                const int c = threadIdx.x % 32;
                rows[c][r] = r0 + r < dim && c0 + c < dim ? matrix[(size_t)(r0 + r) * dim + c0 + c] : 0.0f;
            }
            __syncthreads();
#pragma unroll 4
            for (int k = 0; k < kDepth; k++) {
                const float4 a = *(const float4*)&rows[k][8 * group], b = *(const float4*)&rows[k][8 * group + 4];
                const float4 low = *(const float4*)&tile[k][4 * part];
                const float4 high = *(const float4*)&tile[k][kVectors / 2 + 4 * part];
                const float of_row[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
                const float of_vector[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
                for (int i = 0; i < 8; i++)
#pragma unroll
                    for (int j = 0; j < 8; j++) acc[i][j] += of_row[i] * of_vector[j];
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int r = r0 + 8 * group + i;
            if (r >= dim) break;
            const float* x = vectors + (size_t)r * count + first;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int v = h * (kVectors / 2) + 4 * part;
                if (whole) {
                    const float4 four = *(const float4*)&x[v];
                    sum[4 * h] += acc[i][4 * h] * four.x;
                    sum[4 * h + 1] += acc[i][4 * h + 1] * four.y;
                    sum[4 * h + 2] += acc[i][4 * h + 2] * four.z;
                    sum[4 * h + 3] += acc[i][4 * h + 3] * four.w;
                } else
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        if (first + v + j < count) sum[4 * h + j] += acc[i][4 * h + j] * x[v + j];
            }
        }
    }

    // over the eight groups of rows
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 8; j++) tile[group][j / 4 * (kVectors / 2) + 4 * part + j % 4] = sum[j];
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int g = 0; g < 8; g++) total += tile[g][threadIdx.x];
    if (first + (int)threadIdx.x < count) energy[first + threadIdx.x] = total;
}

__global__ void block_minimum(const float* energy, float* lowest, int count) {
    __shared__ float values[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    values[threadIdx.x] = i < count ? energy[i] : INFINITY;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (threadIdx.x < s) values[threadIdx.x] = fminf(values[threadIdx.x], values[threadIdx.x + s]);
        __syncthreads();
    }
    if (threadIdx.x == 0) lowest[blockIdx.x] = values[0];
}

int main(int argc, char** argv) {
    int count = argc > 1 ? atoi(argv[1]) : 500000;
    int dim = argc > 2 ? atoi(argv[2]) : 64;
    int repeats = 10;

    std::vector<float> matrix(dim * dim), vectors((size_t)dim * count), energy(count);
    unsigned s = 1234567;
    for (float& v : matrix) v = (s = s * 1664525u + 1013904223u) * (2.0f / 4294967296.0f) - 1.0f;
    for (int r = 0; r < dim; r++) matrix[r * dim + r] += sqrtf((float)dim);
    for (float& v : vectors) v = (s = s * 1664525u + 1013904223u) * (2.0f / 4294967296.0f) - 1.0f;

    float *d_matrix, *d_vectors, *d_energy, *d_lowest;
    int blocks = (count + kVectors - 1) / kVectors, parts = (count + 255) / 256;
    cuda_ok(cudaMalloc(&d_matrix, matrix.size() * sizeof(float)));
    cuda_ok(cudaMalloc(&d_vectors, vectors.size() * sizeof(float)));
    cuda_ok(cudaMalloc(&d_energy, count * sizeof(float)));
    cuda_ok(cudaMalloc(&d_lowest, parts * sizeof(float)));
    cuda_ok(cudaMemcpy(d_matrix, matrix.data(), matrix.size() * sizeof(float), cudaMemcpyHostToDevice));
    cuda_ok(cudaMemcpy(d_vectors, vectors.data(), vectors.size() * sizeof(float), cudaMemcpyHostToDevice));

    cudaEvent_t begin, end;
    cuda_ok(cudaEventCreate(&begin));
    cuda_ok(cudaEventCreate(&end));
    cuda_ok(cudaEventRecord(begin));
    for (int k = 0; k < repeats; k++)
        quadratic_form<<<blocks, kThreads>>>(d_matrix, d_vectors, d_energy, dim, count);
    cuda_ok(cudaEventRecord(end));
    cuda_ok(cudaGetLastError());
    block_minimum<<<parts, 256>>>(d_energy, d_lowest, count);
    cuda_ok(cudaGetLastError());

    std::vector<float> lowest(parts);
    cuda_ok(cudaMemcpy(energy.data(), d_energy, count * sizeof(float), cudaMemcpyDeviceToHost));
    cuda_ok(cudaMemcpy(lowest.data(), d_lowest, parts * sizeof(float), cudaMemcpyDeviceToHost));
    float ms = 0;
    cuda_ok(cudaEventElapsedTime(&ms, begin, end));
    fprintf(stderr, "%.3f ms, %.1f GFLOP/s\n", ms / repeats, 2e-6 * dim * (dim + 1) * count * repeats / ms);

    double least = INFINITY, worst = 0;
    for (float v : lowest) least = std::fmin(least, v);
    for (int i = 0; i < count; i += 1 + count / 300) {
        double want = 0;
        for (int r = 0; r < dim; r++)
            for (int c = 0; c < dim; c++)
                want += (double)matrix[r * dim + c] * vectors[(size_t)c * count + i] * vectors[(size_t)r * count + i];
        worst = std::fmax(worst, std::fabs(energy[i] - want) / (1 + std::fabs(want)));
    }
    cuda_ok(cudaFree(d_matrix));
    cuda_ok(cudaFree(d_vectors));
    cuda_ok(cudaFree(d_energy));
    cuda_ok(cudaFree(d_lowest));
    printf("lowest %.3f\n%s\n", least, worst < 1e-4 ? "ok" : "wrong");
    return worst < 1e-4 ? 0 : 1;
}
