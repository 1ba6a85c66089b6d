// SPDX-License-Identifier: Apache-2.0
// Forward substitution, L X = B, with one lower triangular matrix and many right-hand sides: a thread a right-hand side.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t err = (call);                                                        \
        if (err != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(2);                                                                     \
        }                                                                                \
    } while (0)

__host__ __device__ inline float right_hand_side(unsigned i) {
    i = (i ^ (i >> 16)) * 0x7feb352du;
    i = (i ^ (i >> 15)) * 0x846ca68bu;
    return (float)(i >> 8) * (2.0f / (1 << 24)) - 1.0f;
}

__global__ void fill(float* B, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) B[i] = right_hand_side(i);
}

constexpr int kThreads = 128;
constexpr int kRows = 32;  // of X, that a thread has in registers, in two columns
constexpr int kPitch = kRows + 4;

// Columns col and col + 1 of a row; pairs are aligned where m is even.
__device__ __forceinline__ float2 load_pair(const float* row, int col, int m) {
    if (m % 2 == 0) return *(const float2*)(row + col);
    return make_float2(row[col], col + 1 < m ? row[col + 1] : 0.0f);
}

__device__ __forceinline__ void store_pair(float* row, int col, int m, float2 v) {
    if (m % 2 == 0) {
        *(float2*)(row + col) = v;
    } else {
        row[col] = v.x;
        if (col + 1 < m) row[col + 1] = v.y;
    }
}

__device__ __forceinline__ void subtract(float2& sum, float l, float2 x) {
    sum.x -= l * x.x;
    sum.y -= l * x.y;
}

// L: (n, n), B and X: (n, m), all by rows. 32 rows of X at a time: what earlier rows take from them, a row of X read once
// for all 32, and then the triangle on the diagonal. The block's 32 rows of L stand in shared memory by columns, so that
// four of them come in one load that is the same for the whole warp; the diagonal as reciprocals.
__global__ void __launch_bounds__(kThreads, 4)
    forward_substitution(const float* __restrict__ L, const float* __restrict__ B, float* __restrict__ X, int n, int m) {
    extern __shared__ __align__(16) float panel[];
    const int col = 2 * (blockIdx.x * kThreads + threadIdx.x);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    for (int top = 0; top < n; top += kRows) {
        const int width = min(top + kRows, n);
        __syncthreads();
        for (int r = warp; r < kRows; r += kThreads / 32)
            for (int j = lane; j < width; j += 32) {
                float l = top + r < n ? L[(size_t)(top + r) * n + j] : 0.0f;
                panel[j * kPitch + r] = j == top + r ? 1.0f / l : l;
            }
        __syncthreads();
        if (col >= m) continue;

        float2 sum[kRows];
        const float* b = B + (size_t)top * m;
#pragma unroll
        for (int r = 0; r < kRows; r++, b += m)
            sum[r] = top + r < n ? load_pair(b, col, m) : make_float2(0.0f, 0.0f);

        float* row = X;
        const float* l = panel;
#pragma unroll 2
        for (int j = 0; j < top; j++, row += m, l += kPitch) {
            const float2 x = load_pair(row, col, m);
#pragma unroll
            for (int q = 0; q < kRows / 4; q++) {
                const float4 four = *(const float4*)(l + 4 * q);
                subtract(sum[4 * q], four.x, x);
                subtract(sum[4 * q + 1], four.y, x);
                subtract(sum[4 * q + 2], four.z, x);
                subtract(sum[4 * q + 3], four.w, x);
            }
        }

#pragma unroll
        for (int r = 0; r < kRows; r++, row += m, l += kPitch) {
            if (top + r >= n) break;
            const float2 x = make_float2(sum[r].x * l[r], sum[r].y * l[r]);
            store_pair(row, col, m, x);
#pragma unroll
            for (int q = r / 4; q < kRows / 4; q++) {
                const float4 four = *(const float4*)(l + 4 * q);
                if (4 * q > r) subtract(sum[4 * q], four.x, x);
                if (4 * q + 1 > r) subtract(sum[4 * q + 1], four.y, x);
                if (4 * q + 2 > r) subtract(sum[4 * q + 2], four.z, x);
                if (4 * q + 3 > r) subtract(sum[4 * q + 3], four.w, x);
            }
        }
    }
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 128;
    int m = argc > 2 ? atoi(argv[2]) : 131072;

    std::vector<float> L((size_t)n * n, 0.0f);
    unsigned s = 5;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) L[i * n + j] = ((s = s * 1664525u + 1013904223u) >> 8) * (0.4f / (1 << 24)) - 0.2f;
        L[i * n + i] = 1.0f + 0.5f * (i % 5);
    }

    size_t bytes = (size_t)n * m * sizeof(float);
    float *d_L, *d_B, *d_X;
    CHECK(cudaMalloc(&d_L, L.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_B, bytes));
    CHECK(cudaMalloc(&d_X, bytes));
    CHECK(cudaMemcpy(d_L, L.data(), L.size() * sizeof(float), cudaMemcpyHostToDevice));
    fill<<<(n * m + 255) / 256, 256>>>(d_B, n * m);
    CHECK(cudaGetLastError());

    size_t shared = (size_t)(n + kRows - 1) / kRows * kRows * kPitch * sizeof(float);
    CHECK(cudaFuncSetAttribute(forward_substitution, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    for (int run = 0; run < 3; run++) {
        forward_substitution<<<(m + 2 * kThreads - 1) / (2 * kThreads), kThreads, shared>>>(d_L, d_B, d_X, n, m);
        CHECK(cudaGetLastError());
    }

    float* X = (float*)malloc(bytes);
    CHECK(cudaMemcpy(X, d_X, bytes, cudaMemcpyDeviceToHost));

    // some columns again in double
    double worst = 0, total = 0;
    std::vector<double> x(n);
    for (int col = 0; col < m; col += 1 + m / 97) {
        for (int i = 0; i < n; i++) {
            double sum = right_hand_side(i * m + col);
            for (int j = 0; j < i; j++) sum -= (double)L[i * n + j] * x[j];
            x[i] = sum / L[i * n + i];
            total += X[i * m + col];
            worst = std::fmax(worst, std::fabs(x[i] - X[i * m + col]) / (1 + std::fabs(x[i])));
        }
    }
    free(X);
    CHECK(cudaFree(d_L));
    CHECK(cudaFree(d_B));
    CHECK(cudaFree(d_X));
    printf("sum of the sampled columns %.4f\n%s\n", total, worst < 1e-4 ? "ok" : "wrong");
    return worst < 1e-4 ? 0 : 1;
}
