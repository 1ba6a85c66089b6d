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

// Run r has the rows starts[r] to starts[r + 1] - 1.
__global__ void expand_runs(const int* values, const int* starts, int* column, int runs) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= runs) return;
    for (int row = starts[r]; row < starts[r + 1]; row++) {
        column[row] = values[r];
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
    const int block = 128;

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
        expand_runs<<<(runs + block - 1) / block, block>>>(d_values, d_starts, d_column, runs);
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
