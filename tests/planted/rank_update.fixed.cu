// C += A * B in single precision for the blocks of a factorisation: 128 x 128 tiles, 8 x 8 results a thread.
#include <cuda_pipeline.h>

#include <cmath>
#include <cstdio>
#include <vector>

constexpr int kRows = 1408, kColumns = 1536, kInner = 2048;
constexpr int kTile = 128, kDepth = 8, kThreads = 256;

// class: compute
__global__ void __launch_bounds__(kThreads) rank_update(float *__restrict__ c, const float *__restrict__ a,
                                                        const float *__restrict__ b)
{
    __shared__ __align__(16) float left[2][kDepth][kTile];
    __shared__ __align__(16) float right[2][kDepth][kTile];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const int row0 = blockIdx.y * kTile, column0 = blockIdx.x * kTile;
    const int in_row = threadIdx.x / 32, in_column = threadIdx.x % 32 * 4;
    float sums[8][8] = {};
    auto bring = [&](int k0, int into) {
        __pipeline_memcpy_async(&left[into][in_row][in_column], &a[size_t(k0 + in_row) * kRows + row0 + in_column], 16);
        __pipeline_memcpy_async(&right[into][in_row][in_column],
                                &b[size_t(k0 + in_row) * kColumns + column0 + in_column], 16);
        __pipeline_commit();
    };
    bring(0, 0);
    for (int k0 = 0; k0 < kInner; k0 += kDepth) {
        const int now = k0 / kDepth % 2;
        if (k0 + kDepth < kInner) bring(k0 + kDepth, 1 - now);
        __pipeline_wait_prior(k0 + kDepth < kInner ? 1 : 0);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
            float x[8], y[8];
#pragma unroll
            for (int i = 0; i < 8; i += 4) {
                *reinterpret_cast<float4 *>(&x[i]) = *reinterpret_cast<const float4 *>(&left[now][k][ty * 8 + i]);
                *reinterpret_cast<float4 *>(&y[i]) = *reinterpret_cast<const float4 *>(&right[now][k][tx * 4 + i * 16]);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sums[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            float4 *out = reinterpret_cast<float4 *>(
                &c[size_t(row0 + ty * 8 + i) * kColumns + column0 + tx * 4 + j * 16]);
            float4 old = *out;
            *out = make_float4(old.x + sums[i][j], old.y + sums[i][j + 1], old.z + sums[i][j + 2],
                               old.w + sums[i][j + 3]);
        }
}

int main()
{
    // A is stored by columns, as the factorisation leaves it.
    std::vector<float> a(size_t(kInner) * kRows), b(size_t(kInner) * kColumns), c(size_t(kRows) * kColumns, 1.0f);
    for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 7) - 3.0f;
    for (size_t i = 0; i < b.size(); ++i) b[i] = float(i % 5) - 2.0f;
    float *d_a, *d_b, *d_c;
    cudaMalloc(&d_a, a.size() * sizeof(float));
    cudaMalloc(&d_b, b.size() * sizeof(float));
    cudaMalloc(&d_c, c.size() * sizeof(float));
    cudaMemcpy(d_a, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_c, c.data(), c.size() * sizeof(float), cudaMemcpyHostToDevice);
    rank_update<<<dim3(kColumns / kTile, kRows / kTile), kThreads>>>(d_c, d_a, d_b);
    std::vector<float> got(c.size());
    cudaMemcpy(got.data(), d_c, c.size() * sizeof(float), cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < got.size(); i += 10007) {
        size_t row = i / kColumns, column = i % kColumns;
        double want = 1.0;
        for (int k = 0; k < kInner; ++k) want += double(a[k * kRows + row]) * b[k * kColumns + column];
        if (fabs(got[i] - want) > 1e-2 + 1e-4 * fabs(want)) return printf("%zu: %f, not %f\n", i, got[i], want), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
