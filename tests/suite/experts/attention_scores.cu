// SPDX-License-Identifier: Apache-2.0
// Scores of attention, scaled and causal: one thread a pair of positions, half inputs, float sums.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kTile = 64, kDepth = 64;

// 64 by 64 scores a block of 256 threads; queries and keys staged as float, 4 by 4 scores a thread.
__global__ void __launch_bounds__(256) qk_scores(const half* __restrict__ Q, const half* __restrict__ K,
                                                 float* __restrict__ scores, int seq, int d) {
  __shared__ float q[kDepth / 2][kTile + 1], k[kDepth / 2][kTile + 1];
  int j0 = blockIdx.x * kTile, i0 = blockIdx.y * kTile, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  size_t head = blockIdx.z;
  float* out = scores + head * seq * seq;
  float sum[4][4] = {};
  if (j0 <= i0 + kTile - 1) {
    for (int x0 = 0; x0 < d; x0 += kDepth / 2) {
      for (int at = threadIdx.x; at < kTile * kDepth / 2; at += 256) {
        int r = at / (kDepth / 2), x = at % (kDepth / 2);
        bool in = x0 + x < d;
        q[x][r] = in && i0 + r < seq ? __half2float(Q[(head * seq + i0 + r) * d + x0 + x]) : 0.0f;
        k[x][r] = in && j0 + r < seq ? __half2float(K[(head * seq + j0 + r) * d + x0 + x]) : 0.0f;
      }
      __syncthreads();
#pragma unroll 8
      for (int x = 0; x < kDepth / 2; x++) {
        float a[4], b[4];
#pragma unroll
        for (int u = 0; u < 4; u++) a[u] = q[x][ty + 16 * u], b[u] = k[x][tx + 16 * u];
#pragma unroll
        for (int u = 0; u < 4; u++)
#pragma unroll
          for (int w = 0; w < 4; w++) sum[u][w] += a[u] * b[w];
      }
      __syncthreads();
    }
  }
  float scale = 1.0f / sqrtf((float)d);
#pragma unroll
  for (int u = 0; u < 4; u++)
#pragma unroll
    for (int w = 0; w < 4; w++) {
      int i = i0 + ty + 16 * u, j = j0 + tx + 16 * w;
      if (i < seq && j < seq) out[(size_t)i * seq + j] = j > i ? -INFINITY : sum[u][w] * scale;
    }
}

int main(int argc, char** argv) {
  int heads = argc > 1 ? atoi(argv[1]) : 16, seq = argc > 2 ? atoi(argv[2]) : 1024, d = argc > 3 ? atoi(argv[3]) : 64;
  size_t n = (size_t)heads * seq * d, m = (size_t)heads * seq * seq;
  std::vector<half> q(n), k(n);
  std::vector<float> s(m);
  for (size_t i = 0; i < n; i++) {
    q[i] = __float2half(((i * 37) % 64) / 64.0f - 0.5f);
    k[i] = __float2half(((i * 53) % 64) / 64.0f - 0.5f);
  }
  half *dq, *dk;
  float* ds;
  cudaMalloc(&dq, n * 2), cudaMalloc(&dk, n * 2), cudaMalloc(&ds, m * 4);
  cudaMemcpy(dq, q.data(), n * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(dk, k.data(), n * 2, cudaMemcpyHostToDevice);
  dim3 threads(256), blocks((seq + kTile - 1) / kTile, (seq + kTile - 1) / kTile, heads);
  for (int t = 0; t < 3; t++) qk_scores<<<blocks, threads>>>(dq, dk, ds, seq, d);
  cudaMemcpy(s.data(), ds, m * 4, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (size_t at = 0; at < m; at += 1009) {
    size_t j = at % seq, i = at / seq % seq, h = at / seq / seq;
    if (j > i) {
      wrong += !std::isinf(s[at]);
      continue;
    }
    double dot = 0;
    for (int x = 0; x < d; x++) dot += (double)__half2float(q[(h * seq + i) * d + x]) * __half2float(k[(h * seq + j) * d + x]);
    wrong += std::fabs(dot / std::sqrt((double)d) - s[at]) > 1e-3;
  }
  printf("wrong %d\n", wrong);
  return wrong != 0;
}
