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

constexpr int kWarps = 8;       // of a block; each takes a row of its 256 columns at a time
constexpr int kColumns = 256;   // of a block: eight of a thread, 16 bytes

// tanh(u) = 1 - 2 / (exp(2 u) + 1)
__device__ __forceinline__ float fast_gelu_grad(float x) {
    const float s = 0.7978845608f;
    const float square = x * x;
    const float e = __expf(2.0f * s * x * (1.0f + 0.044715f * square));
    const float q = __fdividef(2.0f, e + 1.0f);  // 1 - t
    // 0.5 (1 + t) = 1 - 0.5 q; 1 - t^2 = q (2 - q)
    return 1.0f - 0.5f * q + 0.5f * s * x * q * (2.0f - q) * (1.0f + 3.0f * 0.044715f * square);
}

struct __align__(16) Eight {
    bf16 v[8];
};

__device__ __forceinline__ Eight load_eight(const bf16* row, int col, int cols) {
    Eight eight;
    if (cols % 8 == 0) {
        if (col < cols) *(uint4*)&eight = __ldcs((const uint4*)(row + col));
    } else {
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (col + k < cols) eight.v[k] = row[col + k];
    }
    return eight;
}

__device__ __forceinline__ void store_eight(bf16* row, int col, int cols, const Eight& eight) {
    if (cols % 8 == 0) {
        if (col < cols) __stcs((uint4*)(row + col), *(const uint4*)&eight);
    } else {
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (col + k < cols) row[col + k] = eight.v[k];
    }
}

// x, dy, dx: (rows, cols); dbias is zero before. A thread goes down eight columns and keeps their sums in registers; a
// block adds one number a column to dbias.
__global__ void __launch_bounds__(32 * kWarps)
    bias_gelu_backward(const bf16* __restrict__ x, const bf16* __restrict__ bias, const bf16* __restrict__ dy,
                       bf16* __restrict__ dx, float* __restrict__ dbias, int rows, int cols) {
    __shared__ float sums[kWarps][8][33];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int left = blockIdx.x * kColumns, col = left + 8 * lane;

    float offset[8], sum[8] = {};
#pragma unroll
    for (int k = 0; k < 8; k++) offset[k] = col + k < cols ? __bfloat162float(bias[col + k]) : 0.0f;

    if (col < cols) {
        const int stride = gridDim.y * kWarps;
#pragma unroll 2
        for (int row = blockIdx.y * kWarps + warp; row < rows; row += stride) {
            const size_t at = (size_t)row * cols;
            const Eight in = load_eight(x + at, col, cols);
            const Eight out = load_eight(dy + at, col, cols);
            Eight grads;
#pragma unroll
            for (int k = 0; k < 8; k++) {
                const float grad = __bfloat162float(out.v[k]) * fast_gelu_grad(__bfloat162float(in.v[k]) + offset[k]);
                grads.v[k] = __float2bfloat16(grad);
                sum[k] += grad;
            }
            store_eight(dx + at, col, cols, grads);
        }
    }
#pragma unroll
    for (int k = 0; k < 8; k++) sums[warp][k][lane] = sum[k];
    __syncthreads();
    const int c = threadIdx.x;
    if (left + c < cols) {
        float all = 0.0f;
#pragma unroll
        for (int w = 0; w < kWarps; w++) all += sums[w][c % 8][c / 8];
        atomicAdd(&dbias[left + c], all);
    }
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
    unsigned across = (cols + kColumns - 1) / kColumns, down = (rows + kWarps - 1) / kWarps;
    unsigned most = 132 * 4 / across + 1;  // four blocks a multiprocessor
    bias_gelu_backward<<<dim3(across, down < most ? down : most), 32 * kWarps>>>(x, bias, dy, dx, dbias, rows, cols);
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
