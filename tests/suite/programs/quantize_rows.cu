// SPDX-License-Identifier: Apache-2.0
// Activations from bfloat16 to eight bits, each token with a scale of its own (dynamic quantisation): a thread a token.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(x)                                                                         \
    do {                                                                                 \
        cudaError_t e_ = (x);                                                            \
        if (e_ != cudaSuccess) {                                                         \
            fprintf(stderr, "%s at line %d\n", cudaGetErrorString(e_), __LINE__);        \
            return 2;                                                                    \
        }                                                                                \
    } while (0)

__global__ void quantize_rows(const __nv_bfloat16* x, signed char* q, float* scales, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const __nv_bfloat16* in = x + (size_t)row * cols;
    signed char* out = q + (size_t)row * cols;

    float amax = 0.0f;
    for (int i = 0; i < cols; i++) amax = fmaxf(amax, fabsf(__bfloat162float(in[i])));
    float inv = amax > 0.0f ? 127.0f / amax : 0.0f;
    for (int i = 0; i < cols; i++) {
        float v = rintf(__bfloat162float(in[i]) * inv);
        out[i] = (signed char)fminf(fmaxf(v, -127.0f), 127.0f);
    }
    scales[row] = amax / 127.0f;
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 16384;
    int cols = argc > 2 ? atoi(argv[2]) : 4096;
    int block = argc > 3 ? atoi(argv[3]) : 64;
    size_t n = (size_t)rows * cols;

    std::vector<__nv_bfloat16> values(1024), x(n);
    for (int i = 0; i < 1024; i++) values[i] = __float2bfloat16((i - 512) / 200.0f);
    unsigned s = 13;
    for (size_t i = 0; i < n; i++) x[i] = values[(s = s * 1664525u + 1013904223u) >> 22];
    for (int r = 0; r < rows; r += 7) x[(size_t)r * cols + r % cols] = __float2bfloat16(3.0f + r % 11);  // outliers
    std::vector<signed char> q(n);
    std::vector<float> scales(rows);

    __nv_bfloat16* d_x;
    signed char* d_q;
    float* d_scales;
    CHECK(cudaMalloc(&d_x, n * sizeof(__nv_bfloat16)));
    CHECK(cudaMalloc(&d_q, n));
    CHECK(cudaMalloc(&d_scales, rows * sizeof(float)));
    CHECK(cudaMemcpy(d_x, x.data(), n * sizeof(__nv_bfloat16), cudaMemcpyHostToDevice));

    for (int layer = 0; layer < 4; layer++) {
        quantize_rows<<<(rows + block - 1) / block, block>>>(d_x, d_q, d_scales, rows, cols);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaMemcpy(q.data(), d_q, n, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(scales.data(), d_scales, rows * sizeof(float), cudaMemcpyDeviceToHost));

    int bad = 0;
    for (int r = 0; r < rows; r += rows > 1000 ? 31 : 1) {
        float amax = 0;
        for (int i = 0; i < cols; i++) amax = std::fmax(amax, std::fabs(__bfloat162float(x[(size_t)r * cols + i])));
        if (std::fabs(scales[r] * 127 - amax) > 1e-5f * amax) bad++;
        for (int i = 0; i < cols; i++) {
            size_t at = (size_t)r * cols + i;
            if (std::fabs(q[at] * scales[r] - __bfloat162float(x[at])) > 0.501f * scales[r]) bad++;
        }
    }
    cudaFree(d_x);
    cudaFree(d_q);
    cudaFree(d_scales);
    printf("%s\n", bad ? "wrong" : "ok");
    return bad ? 1 : 0;
}
