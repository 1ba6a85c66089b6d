// SPDX-License-Identifier: Apache-2.0
// Symmetric rank-k update, C = alpha * A * A^T + beta * C; only the lower triangle of C is touched.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int TILE = 128, DEPTH = 8;

// Four consecutive numbers of one row of A, zero past the edge.
__device__ __forceinline__ float4 load_four(const float* A, int n, int k, int row, int p) {
  float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (row >= n) return v;
  const float* from = A + (size_t)row * k + p;
  if (k % 4 == 0) {
    if (p < k) v = *reinterpret_cast<const float4*>(from);
  } else {
    if (p < k) v.x = from[0];
    if (p + 1 < k) v.y = from[1];
    if (p + 2 < k) v.z = from[2];
    if (p + 3 < k) v.w = from[3];
  }
  return v;
}

__device__ __forceinline__ void store_four(float (*tile)[TILE], int p, int row, float4 v) {
  tile[p][row] = v.x;
  tile[p + 1][row] = v.y;
  tile[p + 2][row] = v.z;
  tile[p + 3][row] = v.w;
}

// A block per tile on or under the diagonal, eight by eight results a thread, the next slice of A on its way meanwhile.
__global__ void __launch_bounds__(256, 2)
    ssyrk_lower(int n, int k, float alpha, const float* __restrict__ A, float beta, float* __restrict__ C) {
  __shared__ __align__(16) float left[2][DEPTH][TILE];
  __shared__ __align__(16) float right[2][DEPTH][TILE];
  int t = blockIdx.x;
  int bi = (int)((sqrtf(8.0f * t + 1.0f) - 1.0f) * 0.5f);
  while (bi * (bi + 1) / 2 > t) bi--;
  while ((bi + 1) * (bi + 2) / 2 <= t) bi++;
  int bj = t - bi * (bi + 1) / 2;

  int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  int tx = (warp % 2 * 8 + lane % 8) * 4, ty = (warp / 2 * 4 + lane / 8) * 4;
  int line = tid % TILE, part = tid / TILE * 4;

  float sum[8][8] = {};
  store_four(left[0], part, line, load_four(A, n, k, bi * TILE + line, part));
  store_four(right[0], part, line, load_four(A, n, k, bj * TILE + line, part));
  __syncthreads();
  int stage = 0;
  for (int p0 = 0; p0 < k; p0 += DEPTH) {
    bool more = p0 + DEPTH < k;
    float4 nextLeft, nextRight;
    if (more) {
      nextLeft = load_four(A, n, k, bi * TILE + line, p0 + DEPTH + part);
      nextRight = load_four(A, n, k, bj * TILE + line, p0 + DEPTH + part);
    }
#pragma unroll
    for (int p = 0; p < DEPTH; p++) {
      float a[8], b[8];
      *reinterpret_cast<float4*>(a) = *reinterpret_cast<const float4*>(&left[stage][p][ty]);
      *reinterpret_cast<float4*>(a + 4) = *reinterpret_cast<const float4*>(&left[stage][p][ty + 64]);
      *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(&right[stage][p][tx]);
      *reinterpret_cast<float4*>(b + 4) = *reinterpret_cast<const float4*>(&right[stage][p][tx + 64]);
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) sum[i][j] += a[i] * b[j];
    }
    stage ^= 1;
    if (more) {
      store_four(left[stage], part, line, nextLeft);
      store_four(right[stage], part, line, nextRight);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 8; i++) {
    int row = bi * TILE + ty + i % 4 + i / 4 * 64;
    if (row >= n) continue;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      int col = bj * TILE + tx + h * 64;
      float* to = C + (size_t)row * n + col;
      if (n % 4 == 0 && col + 3 <= row) {
        float4 c = *reinterpret_cast<float4*>(to);
        c.x = alpha * sum[i][h * 4] + beta * c.x;
        c.y = alpha * sum[i][h * 4 + 1] + beta * c.y;
        c.z = alpha * sum[i][h * 4 + 2] + beta * c.z;
        c.w = alpha * sum[i][h * 4 + 3] + beta * c.w;
        *reinterpret_cast<float4*>(to) = c;
      } else {
#pragma unroll
        for (int j = 0; j < 4; j++)
          if (col + j <= row) to[j] = alpha * sum[i][h * 4 + j] + beta * to[j];
      }
    }
  }
}

int main(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 4096;
  int k = argc > 2 ? atoi(argv[2]) : 256;
  const float alpha = 1.0f / k, beta = 0.5f;
  const int updates = 10;

  std::vector<float> A((size_t)n * k), C((size_t)n * n);
  for (size_t i = 0; i < A.size(); i++) A[i] = (float)(i * 2654435761u % 1000) / 500.0f - 1.0f;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) C[(size_t)i * n + j] = j <= i ? (i + j) % 7 : -1.0f;

  float *dA, *dC;
  cudaMalloc(&dA, A.size() * sizeof(float));
  cudaMalloc(&dC, C.size() * sizeof(float));
  cudaMemcpy(dA, A.data(), A.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dC, C.data(), C.size() * sizeof(float), cudaMemcpyHostToDevice);

  int tiles = (n + TILE - 1) / TILE;
  int block = 256;
  int grid = tiles * (tiles + 1) / 2;
  for (int t = 0; t < updates; t++) ssyrk_lower<<<grid, block>>>(n, k, alpha, dA, beta, dC);

  std::vector<float> result(C.size());
  cudaMemcpy(result.data(), dC, C.size() * sizeof(float), cudaMemcpyDeviceToHost);

  int errors = 0;
  double trace = 0;
  for (int i = 0; i < n; i++) trace += result[(size_t)i * n + i];
  for (int i = 0; i < n; i += 1 + n / 100)
    for (int j = 0; j < n; j += 1 + n / 90) {
      double want = C[(size_t)i * n + j];
      if (j <= i) {
        double s = 0;
        for (int p = 0; p < k; p++) s += (double)A[(size_t)i * k + p] * A[(size_t)j * k + p];
        for (int t = 0; t < updates; t++) want = alpha * s + beta * want;
      }
      if (std::fabs(want - result[(size_t)i * n + j]) > 1e-4) errors++;
    }
  printf("trace %.2f, errors %d\n", trace, errors);
  cudaFree(dA);
  cudaFree(dC);
  return errors != 0;
}
