// SPDX-License-Identifier: Apache-2.0
// Scores of attention, scaled and causal: one thread a pair of positions, half inputs, float sums.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void qk_scores(const half* Q, const half* K, float* scores, int seq, int d) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  int i = blockIdx.y * blockDim.y + threadIdx.y;
  int head = blockIdx.z;
  if (i >= seq || j >= seq) return;
  if (j > i) {
    scores[(size_t)head * seq * seq + i * seq + j] = -INFINITY;
    return;
  }
  const half* q = Q + ((size_t)head * seq + i) * d;
  const half* k = K + ((size_t)head * seq + j) * d;
  float dot = 0.0f;
  for (int x = 0; x < d; x++) dot += __half2float(q[x]) * __half2float(k[x]);
  scores[(size_t)head * seq * seq + i * seq + j] = dot / sqrtf((float)d);
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
  dim3 threads(32, 8), blocks((seq + 31) / 32, (seq + 7) / 8, heads);
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
