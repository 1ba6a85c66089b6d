// SPDX-License-Identifier: Apache-2.0
// Product of two complex matrices in single precision, C = A * B, row-major.
#include <cuda_runtime.h>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <vector>

__device__ float2 cmul(float2 a, float2 b) {
  return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

constexpr int kRows = 64, kCols = 128, kSlab = 8;

// Roof: FP32 arithmetic, 8 M N K FLOP. A block of 256 threads makes 64 by 128 numbers, a thread 4 by 8 (64 sums in
// registers, 128 multiply-adds for six loads of 16 bytes from shared memory), from two buffers of eight steps in k.
__global__ void __launch_bounds__(256, 2) cgemm(const float2* __restrict__ A, const float2* __restrict__ B,
                                                float2* __restrict__ C, int M, int N, int K) {
  __shared__ __align__(16) float2 left[2][kSlab][kRows + 2], right[2][kSlab][kCols];
  const int row0 = blockIdx.y * kRows, col0 = blockIdx.x * kCols;
  const int tx = threadIdx.x % 16 * 2, ty = threadIdx.x / 16 * 2;
  // of A: a row's eight numbers by eight threads, and the row 32 further down; of B: 4 rows, each second one
  const int ak = threadIdx.x % kSlab, am = threadIdx.x / kSlab;
  const int bn = threadIdx.x % kCols, bk = threadIdx.x / kCols;

  const float2 zero = make_float2(0.0f, 0.0f);
  float2 next_a[2], next_b[4];
  auto load = [&](int k0) {
#pragma unroll
    for (int q = 0; q < 2; q++) {
      int row = row0 + am + 32 * q, k = k0 + ak;
      next_a[q] = row < M && k < K ? A[(size_t)row * K + k] : zero;
    }
#pragma unroll
    for (int q = 0; q < 4; q++) {
      int col = col0 + bn, k = k0 + bk + 2 * q;
      next_b[q] = col < N && k < K ? B[(size_t)k * N + col] : zero;
    }
  };
  auto keep = [&](int buffer) {
#pragma unroll
    for (int q = 0; q < 2; q++) left[buffer][ak][am + 32 * q] = next_a[q];
#pragma unroll
    for (int q = 0; q < 4; q++) right[buffer][bk + 2 * q][bn] = next_b[q];
  };

  float2 sum[4][8];
#pragma unroll
  for (int r = 0; r < 4; r++)
#pragma unroll
    for (int c = 0; c < 8; c++) sum[r][c] = zero;

  load(0);
  keep(0);
  __syncthreads();
  int buffer = 0;
  for (int k0 = 0; k0 < K; k0 += kSlab) {
    const bool more = k0 + kSlab < K;
    if (more) load(k0 + kSlab);
#pragma unroll
    for (int k = 0; k < kSlab; k++) {
      float4 u[2], v[4];
#pragma unroll
      for (int q = 0; q < 2; q++) u[q] = *(const float4*)&left[buffer][k][ty + 32 * q];
#pragma unroll
      for (int q = 0; q < 4; q++) v[q] = *(const float4*)&right[buffer][k][tx + 32 * q];
#pragma unroll
      for (int r = 0; r < 4; r++) {
        const float ax = r % 2 ? u[r / 2].z : u[r / 2].x, ay = r % 2 ? u[r / 2].w : u[r / 2].y;
#pragma unroll
        for (int c = 0; c < 8; c++) {
          const float bx = c % 2 ? v[c / 2].z : v[c / 2].x, by = c % 2 ? v[c / 2].w : v[c / 2].y;
          sum[r][c].x += ax * bx;
          sum[r][c].x -= ay * by;
          sum[r][c].y += ax * by;
          sum[r][c].y += ay * bx;
        }
      }
    }
    if (more) keep(buffer ^ 1);
    __syncthreads();
    buffer ^= 1;
  }

#pragma unroll
  for (int r = 0; r < 4; r++) {
    int row = row0 + ty + r % 2 + r / 2 * 32;
    if (row >= M) continue;
#pragma unroll
    for (int c = 0; c < 8; c++) {
      int col = col0 + tx + c % 2 + c / 2 * 32;
      if (col < N) C[(size_t)row * N + col] = sum[r][c];
    }
  }
}

static void check(cudaError_t e) {
  if (e != cudaSuccess) {
    fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
    exit(2);
  }
}

int main(int argc, char** argv) {
  int M = argc > 1 ? atoi(argv[1]) : 2048;
  int N = argc > 2 ? atoi(argv[2]) : 2048;
  int K = argc > 3 ? atoi(argv[3]) : 512;

  std::vector<float2> A((size_t)M * K), B((size_t)K * N), C((size_t)M * N);
  unsigned s = 99;
  for (auto* m : {&A, &B})
    for (float2& v : *m) {
      s = s * 1664525u + 1013904223u;
      v.x = (float)(s >> 20) / 2048.0f - 1.0f;
      v.y = (float)(s >> 8 & 4095) / 2048.0f - 1.0f;
    }

  float2 *dA, *dB, *dC;
  check(cudaMalloc(&dA, A.size() * sizeof(float2)));
  check(cudaMalloc(&dB, B.size() * sizeof(float2)));
  check(cudaMalloc(&dC, C.size() * sizeof(float2)));
  check(cudaMemcpy(dA, A.data(), A.size() * sizeof(float2), cudaMemcpyHostToDevice));
  check(cudaMemcpy(dB, B.data(), B.size() * sizeof(float2), cudaMemcpyHostToDevice));

  for (int r = 0; r < 3; r++) cgemm<<<dim3((N + kCols - 1) / kCols, (M + kRows - 1) / kRows), 256>>>(dA, dB, dC, M, N, K);
  check(cudaGetLastError());
  check(cudaMemcpy(C.data(), dC, C.size() * sizeof(float2), cudaMemcpyDeviceToHost));

  double worst = 0;
  for (int i = 0; i < M; i += 1 + M / 100)
    for (int j = i % 5; j < N; j += 1 + N / 100) {
      std::complex<double> want = 0;
      for (int k = 0; k < K; k++) {
        float2 a = A[(size_t)i * K + k], b = B[(size_t)k * N + j];
        want += std::complex<double>(a.x, a.y) * std::complex<double>(b.x, b.y);
      }
      float2 got = C[(size_t)i * N + j];
      worst = std::fmax(worst, std::abs(want - std::complex<double>(got.x, got.y)));
    }
  cudaFree(dA);
  cudaFree(dB);
  cudaFree(dC);
  bool ok = worst < 1e-3;
  printf("%s\n", ok ? "ok" : "wrong");
  return ok ? 0 : 1;
}
