// SPDX-License-Identifier: Apache-2.0
// A column of a table that is stored as runs of equal values, written out in full, and summed.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(x)                                                                  \
    if (cudaError_t error = (x); error != cudaSuccess) {                          \
        fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(error));    \
        exit(1);                                                                  \
    }

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRuns = 32;  // of a warp

// Run r has the rows starts[r] to starts[r + 1] - 1. A warp writes the rows of its runs from the first to the last, four
// rows a thread, each of which looks up the run of its first row.
__global__ void __launch_bounds__(kThreads)
    expand_runs(const int* __restrict__ values, const int* __restrict__ starts, int* __restrict__ column, int runs) {
    __shared__ int first_row[kWarps][kRuns + 1], value_of[kWarps][kRuns];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int run = (blockIdx.x * kWarps + warp) * kRuns;
    if (run >= runs) return;
    int *first = first_row[warp], *value = value_of[warp];
    first[lane] = starts[min(run + lane, runs)];
    value[lane] = run + lane < runs ? values[run + lane] : 0;
    if (lane == 0) first[kRuns] = starts[min(run + kRuns, runs)];
    __syncwarp();

    const int begin = first[0], end = first[kRuns];
    for (int row = begin / 4 * 4 + 4 * lane; row < end; row += 128) {
        const int inside = max(row, begin);
        int r = 0;
#pragma unroll
        for (int half = kRuns / 2; half > 0; half /= 2)
            if (first[r + half] <= inside) r += half;
        int next = first[r + 1], current = value[r], four[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            while (row + k >= next && r < kRuns - 1) {  // also over runs of no rows
                r++;
                next = first[r + 1];
                current = value[r];
            }
            four[k] = current;
        }
        if (row >= begin && row + 4 <= end) {
            __stcs((int4*)(column + row), make_int4(four[0], four[1], four[2], four[3]));
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (row + k >= begin && row + k < end) column[row + k] = four[k];
        }
    }
}

__global__ void sum_column(const int* column, int rows, unsigned long long* sum) {
    __shared__ unsigned long long partial[256];
    unsigned long long mine = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < rows; i += gridDim.x * 256)
        mine += (unsigned long long)column[i] * (i % 7 + 1);
    partial[threadIdx.x] = mine;
    __syncthreads();
    for (int s = 128; s > 0; s /= 2) {
        if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(sum, partial[0]);
}

int main(int argc, char** argv) {
    int runs = argc > 1 ? atoi(argv[1]) : 1200000;
    int repeats = argc > 2 ? atoi(argv[2]) : 20;

    std::vector<int> values(runs), starts(runs + 1);
    unsigned seed = 424242;
    int rows = 0;
    for (int r = 0; r < runs; r++) {
        seed = seed * 1664525u + 1013904223u;
        values[r] = seed >> 12;
        seed = seed * 1664525u + 1013904223u;
        float u = (seed >> 8) / 16777216.0f;
        starts[r] = rows;
        rows += 1 + (int)(100 * u * u * u);  // many short, few long
    }
    starts[runs] = rows;

    int *d_values, *d_starts, *d_column;
    unsigned long long* d_sum;
    CHECK(cudaMalloc(&d_values, runs * sizeof(int)));
    CHECK(cudaMalloc(&d_starts, (runs + 1) * sizeof(int)));
    CHECK(cudaMalloc(&d_column, rows * sizeof(int)));
    CHECK(cudaMalloc(&d_sum, sizeof(unsigned long long)));
    CHECK(cudaMemcpy(d_values, values.data(), runs * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_starts, starts.data(), (runs + 1) * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(d_sum, 0, sizeof(unsigned long long)));

    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaEventRecord(start));
    for (int i = 0; i < repeats; i++) {
        expand_runs<<<(runs + kWarps * kRuns - 1) / (kWarps * kRuns), kThreads>>>(d_values, d_starts, d_column, runs);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaEventRecord(stop));
    sum_column<<<264, 256>>>(d_column, rows, d_sum);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "%d rows: %.4f ms\n", rows, ms / repeats);

    std::vector<int> column(rows);
    unsigned long long sum;
    CHECK(cudaMemcpy(column.data(), d_column, rows * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&sum, d_sum, sizeof sum, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d_values));
    CHECK(cudaFree(d_starts));
    CHECK(cudaFree(d_column));
    CHECK(cudaFree(d_sum));

    int wrong = 0;
    for (int r = 0; r < runs; r++)
        for (int i = starts[r]; i < starts[r + 1]; i++) wrong += column[i] != values[r];
    printf("%d rows, sum %llu\n%d wrong\n", rows, sum, wrong);
    return wrong != 0;
}
