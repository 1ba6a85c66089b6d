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

// a is (rows, cols), row by row; one thread for each column
__global__ void apply_reflector(float* a, const float* v, float tau, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col < cols) {
        float dot = 0.0f;
        for (int row = 0; row < rows; row++) {
            dot += v[row] * a[(size_t)row * cols + col];
        }
        for (int row = 0; row < rows; row++) {
            a[(size_t)row * cols + col] -= tau * dot * v[row];
        }
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
        apply_reflector<<<blocks, threads>>>(d_a, d_v + (size_t)k * rows, tau[k], rows, cols);
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
