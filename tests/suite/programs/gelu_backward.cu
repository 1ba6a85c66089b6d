// SPDX-License-Identifier: Apache-2.0
// Backward pass of y = gelu(x + bias) in bfloat16: the gradient of x, and that of the bias, which sums over the rows.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

typedef __nv_bfloat16 bf16;

#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))
inline void cuda_check(cudaError_t error, const char* file, int line) {
    if (error != cudaSuccess) {
        printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
        exit(EXIT_FAILURE);
    }
}

__host__ __device__ inline float made_up(unsigned i, float scale) {
    i = (i ^ (i >> 16)) * 0x45d9f3bu;
    i = i ^ (i >> 16);
    return scale * ((float)(i & 0xffff) * (2.0f / 65536) - 1.0f);
}

__global__ void init(bf16* v, unsigned seed, float scale, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) v[i] = __float2bfloat16(made_up((unsigned)i + seed, scale));
}

// the derivative of 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
__host__ __device__ inline float gelu_grad(float x) {
    const float s = 0.7978845608f;
    float t = tanhf(s * (x + 0.044715f * x * x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * s * (1.0f + 3.0f * 0.044715f * x * x);
}

// x, dy, dx: (rows, cols); dbias is zero before
__global__ void bias_gelu_backward(const bf16* x, const bf16* bias, const bf16* dy, bf16* dx, float* dbias, int rows,
                                   int cols) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)rows * cols) return;
    int col = i % cols;
    float in = __bfloat162float(x[i]) + __bfloat162float(bias[col]);
    float grad = __bfloat162float(dy[i]) * gelu_grad(in);
    dx[i] = __float2bfloat16(grad);
    atomicAdd(&dbias[col], grad);
}

__global__ void sgd(bf16* bias, const float* dbias, float rate, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols) bias[c] = __float2bfloat16(__bfloat162float(bias[c]) - rate * dbias[c]);
}

int main(int argc, char** argv) {
    int rows = argc > 1 ? atoi(argv[1]) : 24576;
    int cols = argc > 2 ? atoi(argv[2]) : 1536;
    int block = argc > 3 ? atoi(argv[3]) : 256;
    size_t n = (size_t)rows * cols;

    bf16 *x, *dy, *dx, *bias;
    float* dbias;
    cudaCheck(cudaMalloc(&x, n * sizeof(bf16)));
    cudaCheck(cudaMalloc(&dy, n * sizeof(bf16)));
    cudaCheck(cudaMalloc(&dx, n * sizeof(bf16)));
    cudaCheck(cudaMalloc(&bias, cols * sizeof(bf16)));
    cudaCheck(cudaMalloc(&dbias, cols * sizeof(float)));
    unsigned grid = (unsigned)((n + block - 1) / block);
    init<<<grid, block>>>(x, 1u, 3.0f, n);
    init<<<grid, block>>>(dy, 77777u, 0.5f, n);
    init<<<(cols + block - 1) / block, block>>>(bias, 99u, 0.5f, cols);
    cudaCheck(cudaGetLastError());

    cudaCheck(cudaMemset(dbias, 0, cols * sizeof(float)));
    bias_gelu_backward<<<grid, block>>>(x, bias, dy, dx, dbias, rows, cols);
    cudaCheck(cudaGetLastError());

    std::vector<float> h_dbias(cols);
    std::vector<bf16> row(cols);
    std::vector<bf16> h_bias(cols);
    cudaCheck(cudaMemcpy(h_dbias.data(), dbias, cols * sizeof(float), cudaMemcpyDeviceToHost));
    cudaCheck(cudaMemcpy(h_bias.data(), bias, cols * sizeof(bf16), cudaMemcpyDeviceToHost));
    sgd<<<(cols + block - 1) / block, block>>>(bias, dbias, 1e-3f, cols);
    cudaCheck(cudaGetLastError());

    auto gradient = [&](int r, int c) {
        unsigned i = (unsigned)((size_t)r * cols + c);
        float in = __bfloat162float(__float2bfloat16(made_up(i + 1u, 3.0f))) + __bfloat162float(h_bias[c]);
        return __bfloat162float(__float2bfloat16(made_up(i + 77777u, 0.5f))) * gelu_grad(in);
    };
    double worst = 0;
    for (int r = 0; r < rows; r += 1 + rows / 7) {
        cudaCheck(cudaMemcpy(row.data(), dx + (size_t)r * cols, cols * sizeof(bf16), cudaMemcpyDeviceToHost));
        for (int c = 0; c < cols; c++) worst = std::fmax(worst, std::fabs(gradient(r, c) - __bfloat162float(row[c])));
    }
    double worst_bias = 0;
    for (int c = 0; c < cols; c += 1 + cols / 6) {
        double want = 0;
        for (int r = 0; r < rows; r++) want += gradient(r, c);
        worst_bias = std::fmax(worst_bias, std::fabs(want - h_dbias[c]) / (1 + std::fabs(want)));
    }
    cudaCheck(cudaFree(x));
    cudaCheck(cudaFree(dy));
    cudaCheck(cudaFree(dx));
    cudaCheck(cudaFree(bias));
    cudaCheck(cudaFree(dbias));
    bool ok = worst < 5e-3 && worst_bias < 1e-3;
    printf("%s\n", ok ? "ok" : "wrong");
    return ok ? 0 : 1;
}
