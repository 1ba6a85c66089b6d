// C = A * B in single precision, 128 x 128 tiles, three stages of cp.async ahead of the multiply-adds.
#include <cuda_pipeline.h>

#include <cmath>
#include <cstdio>
#include <vector>

constexpr int M = 4096, N = 4096, K = 2048;
constexpr int BM = 128, BN = 128, BK = 8, STAGES = 3, THREADS = 256;

struct Stage {
    float a[BK][BM];
    float b[BK][BN];
};

// A is given by columns, as weights are packed.
__device__ __forceinline__ void fetch(Stage &stage, const float *a, const float *b, int k0, int row0, int col0)
{
    const int k = threadIdx.x / 32, at = threadIdx.x % 32 * 4;
    __pipeline_memcpy_async(&stage.a[k][at], &a[size_t(k0 + k) * M + row0 + at], 16);
    __pipeline_memcpy_async(&stage.b[k][at], &b[size_t(k0 + k) * N + col0 + at], 16);
}

// class: compute
__global__ void __launch_bounds__(THREADS) gemm(float *__restrict__ c, const float *__restrict__ a,
                                                const float *__restrict__ b)
{
    __shared__ __align__(16) Stage stages[STAGES];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float acc[8][8] = {};
    for (int s = 0; s < STAGES - 1; ++s) {
        fetch(stages[s], a, b, s * BK, row0, col0);
        __pipeline_commit();
    }
    for (int tile = 0; tile < K / BK; ++tile) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        if (tile + STAGES - 1 < K / BK)
            fetch(stages[(tile + STAGES - 1) % STAGES], a, b, (tile + STAGES - 1) * BK, row0, col0);
        __pipeline_commit();
        const Stage &now = stages[tile % STAGES];
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float4 x0 = *reinterpret_cast<const float4 *>(&now.a[k][ty * 4]);
            float4 x1 = *reinterpret_cast<const float4 *>(&now.a[k][64 + ty * 4]);
            float4 y0 = *reinterpret_cast<const float4 *>(&now.b[k][tx * 4]);
            float4 y1 = *reinterpret_cast<const float4 *>(&now.b[k][64 + tx * 4]);
            const float x[8] = {x0.x, x0.y, x0.z, x0.w, x1.x, x1.y, x1.z, x1.w};
            const float y[8] = {y0.x, y0.y, y0.z, y0.w, y1.x, y1.y, y1.z, y1.w};
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) acc[i][j] += x[i] * y[j];
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = row0 + (i < 4 ? ty * 4 + i : 60 + ty * 4 + i);
        float4 *out = reinterpret_cast<float4 *>(&c[size_t(row) * N + col0]);
        out[tx] = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
        out[tx + 16] = make_float4(acc[i][4], acc[i][5], acc[i][6], acc[i][7]);
    }
}

int main()
{
    std::vector<float> a(size_t(K) * M), b(size_t(K) * N), c(size_t(M) * N);
    for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 5) - 2.0f;
    for (size_t i = 0; i < b.size(); ++i) b[i] = float(i % 9) - 4.0f;
    float *d_a, *d_b, *d_c;
    cudaMalloc(&d_a, a.size() * sizeof(float));
    cudaMalloc(&d_b, b.size() * sizeof(float));
    cudaMalloc(&d_c, c.size() * sizeof(float));
    cudaMemcpy(d_a, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice);
    for (int repeat = 0; repeat < 3; ++repeat) gemm<<<dim3(N / BN, M / BM), THREADS>>>(d_c, d_a, d_b);
    cudaMemcpy(c.data(), d_c, c.size() * sizeof(float), cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < c.size(); i += 100003) {
        size_t row = i / N, column = i % N;
        double want = 0.0;
        for (int k = 0; k < K; ++k) want += double(a[k * size_t(M) + row]) * b[k * size_t(N) + column];
        if (fabs(c[i] - want) > 1e-2 + 1e-4 * fabs(want)) return printf("%zu: %f, not %f\n", i, c[i], want), 1;
    }
    return printf("ok\n"), cudaGetLastError() != cudaSuccess;
}
