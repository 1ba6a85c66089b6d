// SPDX-License-Identifier: Apache-2.0
// Householder reflectors applied to a matrix, one after the other: A = A - tau v (v^T A). Lengths of columns stay the same.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t status = (call);                                                 \
        if (status != cudaSuccess) {                                                 \
            fprintf(stderr, "%s at line %d\n", cudaGetErrorString(status), __LINE__); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

constexpr int kThreads = 512;
constexpr int kCols = 16;                // of a block: four threads of four columns each
constexpr int kRows = kThreads / 4;      // of a block at a time
constexpr int kKept = 8;                 // rows of a thread that stay in registers: 1024 of a column in all

// a is (rows, cols), row by row. A block has sixteen columns, and keeps them between the product and the update.
template <bool Whole>
__device__ __forceinline__ float4 load_four(const float* from, int left) {
    if (Whole) return left > 0 ? *(const float4*)from : make_float4(0, 0, 0, 0);
    return make_float4(left > 0 ? from[0] : 0, left > 1 ? from[1] : 0, left > 2 ? from[2] : 0, left > 3 ? from[3] : 0);
}

template <bool Whole>
__device__ __forceinline__ void store_four(float* to, float4 x, int left) {
    if (Whole) {
        if (left > 0) *(float4*)to = x;
        return;
    }
    if (left > 0) to[0] = x.x;
    if (left > 1) to[1] = x.y;
    if (left > 2) to[2] = x.z;
    if (left > 3) to[3] = x.w;
}

template <bool Whole>
__device__ __forceinline__ void reflect(float* a, const float* v, float tau, int rows, int cols,
                                        float (*partial)[kCols]) {
    const int quad = threadIdx.x % 4, first = threadIdx.x / 4;
    const int col = blockIdx.x * kCols + 4 * quad, left = cols - col;
    float* mine = a + (size_t)first * cols + col;
    const size_t step = (size_t)kRows * cols;
    const float* weight = v + first;
    const int own = (rows - first + kRows - 1) / kRows;  // rows of this thread, those that it cannot keep as well

    float4 kept[kKept];
#pragma unroll
    for (int k = 0; k < kKept; k++) kept[k] = load_four<Whole>(mine + k * step, k < own ? left : 0);
    float4 dot = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int k = 0; k < kKept; k++) {
        const float w = k < own ? weight[k * kRows] : 0.0f;
        dot.x += w * kept[k].x;
        dot.y += w * kept[k].y;
        dot.z += w * kept[k].z;
        dot.w += w * kept[k].w;
    }
    for (int row = first + kKept * kRows; row < rows; row += kRows) {
        const float4 x = load_four<Whole>(a + (size_t)row * cols + col, left);
        const float w = v[row];
        dot.x += w * x.x;
        dot.y += w * x.y;
        dot.z += w * x.z;
        dot.w += w * x.w;
    }

#pragma unroll
    for (int over = 4; over < 32; over *= 2) {
        dot.x += __shfl_xor_sync(0xffffffffu, dot.x, over);
        dot.y += __shfl_xor_sync(0xffffffffu, dot.y, over);
        dot.z += __shfl_xor_sync(0xffffffffu, dot.z, over);
        dot.w += __shfl_xor_sync(0xffffffffu, dot.w, over);
    }
    if (threadIdx.x % 32 < 4) *(float4*)&partial[threadIdx.x / 32][4 * quad] = dot;
    __syncthreads();
    float4 scale = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int warp = 0; warp < kThreads / 32; warp++) {
        const float4 x = *(const float4*)&partial[warp][4 * quad];
        scale.x += x.x;
        scale.y += x.y;
        scale.z += x.z;
        scale.w += x.w;
    }
    scale = make_float4(tau * scale.x, tau * scale.y, tau * scale.z, tau * scale.w);

#pragma unroll
    for (int k = 0; k < kKept; k++) {
        const float w = k < own ? weight[k * kRows] : 0.0f;
        float4 x = kept[k];
        x.x -= scale.x * w;
        x.y -= scale.y * w;
        x.z -= scale.z * w;
        x.w -= scale.w * w;
        store_four<Whole>(mine + k * step, x, k < own ? left : 0);
    }
    for (int row = first + kKept * kRows; row < rows; row += kRows) {
        float4 x = load_four<Whole>(a + (size_t)row * cols + col, left);
        const float w = v[row];
        x.x -= scale.x * w;
        x.y -= scale.y * w;
        x.z -= scale.z * w;
        x.w -= scale.w * w;
        store_four<Whole>(a + (size_t)row * cols + col, x, left);
    }
}

__global__ void __launch_bounds__(kThreads, 2)
    apply_reflector(float* __restrict__ a, const float* __restrict__ v, float tau, int rows, int cols) {
    __shared__ __align__(16) float partial[kThreads / 32][kCols];
    if (cols % 4 == 0) {
        reflect<true>(a, v, tau, rows, cols, partial);
    } else {
        reflect<false>(a, v, tau, rows, cols, partial);
    }
}

// length of each column
__global__ void column_lengths(const float* a, float* lengths, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    float sum = 0.0f;
    for (int row = 0; row < rows; row++) {
        float x = a[(size_t)row * cols + col];
        sum += x * x;
    }
    lengths[col] = sqrtf(sum);
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 1000;
    int cols = argc > 2 ? atoi(argv[2]) : 24000;
    int reflectors = argc > 3 ? atoi(argv[3]) : 20;
    const int threads = 128;

    size_t n = (size_t)rows * cols;
    std::vector<float> a(n), result(n), v((size_t)reflectors * rows), tau(reflectors);
    unsigned seed = 77;
    auto uniform = [&seed]() {
        seed = seed * 1664525u + 1013904223u;
        return (seed >> 8) * (1.0f / 8388608.0f) - 1.0f;
    };
    for (size_t i = 0; i < n; i++) a[i] = uniform();
    for (int k = 0; k < reflectors; k++) {
        double norm = 0;
        for (int row = 0; row < rows; row++) {
            float x = uniform();
            v[(size_t)k * rows + row] = x;
            norm += (double)x * x;
        }
        tau[k] = (float)(2.0 / norm);
    }

    float *d_a, *d_v, *d_lengths;
    CHECK(cudaMalloc(&d_a, n * sizeof(float)));
    CHECK(cudaMalloc(&d_v, v.size() * sizeof(float)));
    CHECK(cudaMalloc(&d_lengths, cols * sizeof(float)));
    CHECK(cudaMemcpy(d_a, a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(d_v, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice));

    std::vector<float> before(cols), after(cols);
    int blocks = (cols + threads - 1) / threads;
    column_lengths<<<blocks, threads>>>(d_a, d_lengths, rows, cols);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(before.data(), d_lengths, cols * sizeof(float), cudaMemcpyDeviceToHost));

    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaEventRecord(start));
    for (int k = 0; k < reflectors; k++) {
        apply_reflector<<<(cols + kCols - 1) / kCols, kThreads>>>(d_a, d_v + (size_t)k * rows, tau[k], rows, cols);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    fprintf(stderr, "%.3f ms for a reflector\n", ms / reflectors);

    column_lengths<<<blocks, threads>>>(d_a, d_lengths, rows, cols);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(after.data(), d_lengths, cols * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(result.data(), d_a, n * sizeof(float), cudaMemcpyDeviceToHost));

    bool ok = true;
    double total = 0;
    for (int col = 0; col < cols; col++) {
        total += after[col];
        if (std::fabs(after[col] - before[col]) > 1e-3f * before[col]) ok = false;
    }
    for (int col = 0; col < cols; col += 1 + cols / 20) {
        std::vector<double> x(rows);
        for (int row = 0; row < rows; row++) x[row] = a[(size_t)row * cols + col];
        for (int k = 0; k < reflectors; k++) {
            double dot = 0;
            for (int row = 0; row < rows; row++) dot += v[(size_t)k * rows + row] * x[row];
            for (int row = 0; row < rows; row++) x[row] -= tau[k] * dot * v[(size_t)k * rows + row];
        }
        for (int row = 0; row < rows; row++) {
            if (!(std::fabs(result[(size_t)row * cols + col] - x[row]) < 1e-4)) ok = false;
        }
    }
    CHECK(cudaFree(d_a));
    CHECK(cudaFree(d_v));
    CHECK(cudaFree(d_lengths));
    printf("mean length of a column %.5f\n", total / cols);
    printf(ok ? "passed\n" : "FAILED\n");
    return ok ? 0 : 1;
}
