// SPDX-License-Identifier: Apache-2.0
// Products of rows of two dense matrices, only where a sparse matrix has an entry: scores of users for items, for example.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CHECK(call)                                                            \
    do {                                                                            \
        cudaError_t rc = call;                                                      \
        if (rc != cudaSuccess) {                                                    \
            fprintf(stderr, "%s (line %d)\n", cudaGetErrorString(rc), __LINE__);    \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

constexpr int kThreads = 256;
constexpr int kTeam = 8;              // threads for an entry
constexpr int kTeams = 32 / kTeam;    // of a warp
constexpr int kAhead = 2;             // entries of a team at a time

__device__ __forceinline__ float dot_of(float4 x, float4 y) { return x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w; }

__device__ __forceinline__ float sum_of_team(float x) {
#pragma unroll
    for (int over = 1; over < kTeam; over *= 2) x += __shfl_xor_sync(0xffffffffu, x, over);
    return x;
}

// A warp has a row of the sparse matrix, whose row of a stays in registers; eight threads read a row of b, 16 bytes each.
// Fours: float4s of a thread for a row.
template <int Fours>
__device__ __forceinline__ void multiply_row(const int* column, const float* value, const float4* a, const float4* b,
                                             float* out, int row, int begin, int end) {
    const int lane = threadIdx.x % 32, team = lane / kTeam, member = lane % kTeam;
    const size_t pitch = Fours * kTeam;
    float4 mine[Fours];
#pragma unroll
    for (int k = 0; k < Fours; k++) mine[k] = a[row * pitch + k * kTeam + member];
    for (int first = begin + team; first - team < end; first += kTeams * kAhead) {
        float4 other[kAhead][Fours];
        float scale[kAhead];
#pragma unroll
        for (int i = 0; i < kAhead; i++) {
            const int e = first + i * kTeams;
            const int c = e < end ? column[e] : 0;
            scale[i] = e < end && member == 0 ? value[e] : 0.0f;
#pragma unroll
            for (int k = 0; k < Fours; k++)
                other[i][k] = e < end ? b[c * pitch + k * kTeam + member] : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int i = 0; i < kAhead; i++) {
            const int e = first + i * kTeams;
            float dot = 0.0f;
#pragma unroll
            for (int k = 0; k < Fours; k++) dot += dot_of(mine[k], other[i][k]);
            dot = sum_of_team(dot);
            if (member == 0 && e < end) out[e] = scale[i] * dot;
        }
    }
}

// a: (rows, width), b: (columns, width); the sparse matrix in compressed rows
__global__ void __launch_bounds__(kThreads)
    sddmm(const int* __restrict__ row_start, const int* __restrict__ column, const float* __restrict__ value,
          const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int rows, int entries,
          int width) {
    const int row = (blockIdx.x * kThreads + threadIdx.x) / 32;
    if (row >= rows) return;
    const int begin = row_start[row], end = min(row_start[row + 1], entries);
    if (width == 4 * kTeam) {
        multiply_row<1>(column, value, (const float4*)a, (const float4*)b, out, row, begin, end);
    } else if (width == 8 * kTeam) {
        multiply_row<2>(column, value, (const float4*)a, (const float4*)b, out, row, begin, end);
    } else if (width == 16 * kTeam) {
        multiply_row<4>(column, value, (const float4*)a, (const float4*)b, out, row, begin, end);
    } else {
        const int team = threadIdx.x % 32 / kTeam, member = threadIdx.x % kTeam;
        for (int first = begin; first < end; first += kTeams) {
            const int e = first + team;
            float dot = 0.0f;
            if (e < end) {
                const float *x = a + (size_t)row * width, *y = b + (size_t)column[e] * width;
                for (int k = member; k < width; k += kTeam) dot += x[k] * y[k];
            }
            dot = sum_of_team(dot);
            if (member == 0 && e < end) out[e] = value[e] * dot;
        }
    }
}

__global__ void row_largest(const int* row_start, const float* out, float* largest, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float m = -INFINITY;
    for (int e = row_start[row]; e < row_start[row + 1]; e++) m = fmaxf(m, out[e]);
    largest[row] = m;
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 60000;
    int columns = argc > 2 ? atoi(argv[2]) : 50000;
    int mean = argc > 3 ? atoi(argv[3]) : 40;
    int width = argc > 4 ? atoi(argv[4]) : 64;
    const int block = 256, repeats = 20;

    unsigned state = 271828;
    auto random = [&state] {
        state = state * 1664525u + 1013904223u;
        return state >> 8;
    };
    std::vector<int> row_start(rows + 1), column;
    for (int row = 0; row < rows; row++) {
        row_start[row] = (int)column.size();
        int length = (int)((long long)random() * (2 * mean + 1) >> 24);  // 0 to twice the mean
        for (int i = 0; i < length; i++) column.push_back((int)((long long)random() * columns >> 24));
        std::sort(column.begin() + row_start[row], column.end());
    }
    int entries = row_start[rows] = (int)column.size();
    std::vector<float> value(entries), a((size_t)rows * width), b((size_t)columns * width), out(entries), largest(rows);
    for (float& x : value) x = random() / 16777216.0f + 0.5f;
    for (float& x : a) x = random() / 8388608.0f - 1.0f;
    for (float& x : b) x = random() / 8388608.0f - 1.0f;

    int *d_row_start, *d_column;
    float *d_value, *d_a, *d_b, *d_out, *d_largest;
    CUDA_CHECK(cudaMalloc(&d_row_start, (rows + 1) * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_column, entries * sizeof(int)));
    CUDA_CHECK(cudaMalloc(&d_value, entries * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_a, a.size() * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_b, b.size() * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_out, entries * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&d_largest, rows * sizeof(float)));
    CUDA_CHECK(cudaMemcpy(d_row_start, row_start.data(), (rows + 1) * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_column, column.data(), entries * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_value, value.data(), entries * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_a, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(d_b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));

    cudaEvent_t begin, end;
    CUDA_CHECK(cudaEventCreate(&begin));
    CUDA_CHECK(cudaEventCreate(&end));
    CUDA_CHECK(cudaEventRecord(begin));
    for (int i = 0; i < repeats; i++) {
        const int warps = kThreads / 32;
        sddmm<<<(rows + warps - 1) / warps, kThreads>>>(d_row_start, d_column, d_value, d_a, d_b, d_out, rows, entries,
                                                        width);
        CUDA_CHECK(cudaGetLastError());
    }
    CUDA_CHECK(cudaEventRecord(end));
    row_largest<<<(rows + block - 1) / block, block>>>(d_row_start, d_out, d_largest, rows);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    float ms;
    CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    fprintf(stderr, "%d entries, %.3f ms\n", entries, ms / repeats);

    CUDA_CHECK(cudaMemcpy(out.data(), d_out, entries * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(largest.data(), d_largest, rows * sizeof(float), cudaMemcpyDeviceToHost));
    double worst = 0, sum = 0;
    int filled = 0;
    for (int row = 0; row < rows; row++) {
        if (row_start[row] == row_start[row + 1]) continue;
        sum += largest[row];
        filled++;
        if (row % (1 + rows / 500)) continue;
        for (int e = row_start[row]; e < row_start[row + 1]; e++) {
            double dot = 0;
            for (int k = 0; k < width; k++) dot += (double)a[(size_t)row * width + k] * b[(size_t)column[e] * width + k];
            worst = std::fmax(worst, std::fabs(out[e] - value[e] * dot));
        }
    }
    CUDA_CHECK(cudaFree(d_row_start));
    CUDA_CHECK(cudaFree(d_column));
    CUDA_CHECK(cudaFree(d_value));
    CUDA_CHECK(cudaFree(d_a));
    CUDA_CHECK(cudaFree(d_b));
    CUDA_CHECK(cudaFree(d_out));
    CUDA_CHECK(cudaFree(d_largest));
    printf("mean of the largest %.4f\n%s\n", sum / filled, worst < 1e-4 ? "ok" : "wrong");
    return worst < 1e-4 ? 0 : 1;
}
