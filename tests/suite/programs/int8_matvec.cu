// SPDX-License-Identifier: Apache-2.0
// The last layer of a language model with weights of eight bits: y = scale * (W x), activations in half precision.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

inline void check(cudaError_t e) {
    if (e != cudaSuccess) {
        fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
        exit(2);
    }
}

// weights: (rows, cols), row-major, a scale for each row; a thread a row
__global__ void int8_gemv(const int8_t* weights, const float* scales, const half* x, half* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float acc = 0.0f;
        for (int c = 0; c < cols; c++) {
            acc += (float)weights[(size_t)row * cols + c] * __half2float(x[c]);
        }
        y[row] = __float2half(acc * scales[row]);
    }
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 50257;
    int cols = argc > 2 ? atoi(argv[2]) : 4096;
    int block = argc > 3 ? atoi(argv[3]) : 128;
    size_t n = (size_t)rows * cols;

    std::vector<int8_t> weights(n);
    for (size_t i = 0; i < n; i++) weights[i] = (int8_t)((uint32_t)i * 2654435761u >> 24);
    std::vector<float> scales(rows);
    for (int r = 0; r < rows; r++) scales[r] = (1 + r % 9) * 1e-4f;
    std::vector<half> x(cols), y(rows);
    unsigned s = 3;
    for (half& h : x) h = __float2half(((s = s * 69069u + 1u) >> 20) / 2048.0f - 1.0f);

    int8_t* d_weights;
    float* d_scales;
    half *d_x, *d_y;
    check(cudaMalloc(&d_weights, n));
    check(cudaMalloc(&d_scales, rows * sizeof(float)));
    check(cudaMalloc(&d_x, cols * sizeof(half)));
    check(cudaMalloc(&d_y, rows * sizeof(half)));
    check(cudaMemcpy(d_weights, weights.data(), n, cudaMemcpyHostToDevice));
    check(cudaMemcpy(d_scales, scales.data(), rows * sizeof(float), cudaMemcpyHostToDevice));
    check(cudaMemcpy(d_x, x.data(), cols * sizeof(half), cudaMemcpyHostToDevice));

    for (int token = 0; token < 6; token++) {
        int8_gemv<<<(rows + block - 1) / block, block>>>(d_weights, d_scales, d_x, d_y, rows, cols);
        check(cudaGetLastError());
    }
    check(cudaMemcpy(y.data(), d_y, rows * sizeof(half), cudaMemcpyDeviceToHost));

    int wrong = 0;
    for (int r = 0; r < rows; r += rows > 1000 ? 97 : 1) {
        double want = 0;
        for (int c = 0; c < cols; c++) want += weights[(size_t)r * cols + c] * (double)__half2float(x[c]);
        want *= scales[r];
        if (!(std::fabs(want - __half2float(y[r])) < 2e-3 + 1e-3 * std::fabs(want))) wrong++;
    }
    check(cudaFree(d_weights));
    check(cudaFree(d_scales));
    check(cudaFree(d_x));
    check(cudaFree(d_y));
    printf("%s\n", wrong ? "wrong" : "ok");
    return wrong ? 1 : 0;
}
