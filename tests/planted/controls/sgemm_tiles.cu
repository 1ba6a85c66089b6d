// C = A * B with 128 x 128 tiles and 8 x 8 outputs a thread.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;

// class: compute
__global__ void __launch_bounds__(256) sgemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C,
                                             int M, int N, int K)
{
    __shared__ float As[BK][BM + 4], Bs[BK][BN];
    const int t = threadIdx.x, row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    const int tx = t % 16, ty = t / 16;
    const int ar = t / 2, ac = t % 2 * 4, br = t / 32, bc = t % 32 * 4;
    float acc[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        float4 a = *reinterpret_cast<const float4 *>(&A[(row0 + ar) * K + k0 + ac]);
        float4 b = *reinterpret_cast<const float4 *>(&B[(k0 + br) * N + col0 + bc]);
        As[ac][ar] = a.x, As[ac + 1][ar] = a.y, As[ac + 2][ar] = a.z, As[ac + 3][ar] = a.w;
        *reinterpret_cast<float4 *>(&Bs[br][bc]) = b;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float ra[TM], rb[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) ra[i] = As[k][ty * 4 + (i / 4) * 64 + i % 4];
#pragma unroll
            for (int j = 0; j < TN; ++j) rb[j] = Bs[k][tx * 4 + (j / 4) * 64 + j % 4];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] += ra[i] * rb[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            int r = row0 + ty * 4 + (i / 4) * 64 + i % 4, c = col0 + tx * 4 + (j / 4) * 64;
            *reinterpret_cast<float4 *>(&C[r * N + c]) = make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
        }
}

int main()
{
    const int n = 4096;
    std::vector<float> a(n * n), b(n * n), c(n * n);
    for (int i = 0; i < n * n; ++i) a[i] = float(i % 5) - 2, b[i] = float(i % 3) - 1;
    float *da, *db, *dc;
    cudaMalloc(&da, n * n * 4), cudaMalloc(&db, n * n * 4), cudaMalloc(&dc, n * n * 4);
    cudaMemcpy(da, a.data(), n * n * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b.data(), n * n * 4, cudaMemcpyHostToDevice);
    sgemm<<<dim3(n / BN, n / BM), 256>>>(da, db, dc, n, n, n);
    cudaMemcpy(c.data(), dc, n * n * 4, cudaMemcpyDeviceToHost);
    for (int r = 0; r < n; r += 517)
        for (int q = 0; q < n; q += 311) {
            double want = 0;
            for (int k = 0; k < n; ++k) want += double(a[r * n + k]) * b[k * n + q];
            if (std::fabs(want - c[r * n + q]) > 0.5) return puts("wrong"), 1;
        }
    puts("ok");
}
