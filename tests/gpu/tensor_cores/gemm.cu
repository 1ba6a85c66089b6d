// SPDX-License-Identifier: Apache-2.0
// C = A * B of bfloat16 matrices, all row-major, an element a thread, sums in float.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

typedef __nv_bfloat16 bf16;

constexpr int kBlockX = 16;
constexpr int kBlockY = 16;
constexpr int kTileM = 16;
constexpr int kTileN = 16;
constexpr int kShared = 0;

__global__ void gemm(const bf16* A, const bf16* B, bf16* C, int M, int N, int K) {
  int row = blockIdx.y * kTileM + threadIdx.y;
  int col = blockIdx.x * kTileN + threadIdx.x;
  if (row < M && col < N) {
    float sum = 0.0f;
    for (int k = 0; k < K; k++)
      sum += __bfloat162float(A[(size_t)row * K + k]) * __bfloat162float(B[(size_t)k * N + col]);
    C[(size_t)row * N + col] = __float2bfloat16(sum);
  }
}

extern "C" void launch(const bf16* A, const bf16* B, bf16* C, int M, int N, int K, cudaStream_t stream) {
  dim3 block(kBlockX, kBlockY), grid((N + kTileN - 1) / kTileN, (M + kTileM - 1) / kTileM);
  cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  gemm<<<grid, block, kShared, stream>>>(A, B, C, M, N, K);
}

int main(int argc, char** argv) {
  int M = argc > 1 ? atoi(argv[1]) : 2048;
  int N = argc > 2 ? atoi(argv[2]) : 2048;
  int K = argc > 3 ? atoi(argv[3]) : 2048;
  std::vector<bf16> a((size_t)M * K), b((size_t)K * N), c((size_t)M * N);
  unsigned state = 1;
  auto next = [&] { return ((state = state * 1664525u + 1013904223u) >> 8) * (2.0f / (1 << 24)) - 1.0f; };
  for (auto& x : a) x = __float2bfloat16(next());
  for (auto& x : b) x = __float2bfloat16(next());
  bf16 *dA, *dB, *dC;
  cudaMalloc(&dA, a.size() * sizeof(bf16));
  cudaMalloc(&dB, b.size() * sizeof(bf16));
  cudaMalloc(&dC, c.size() * sizeof(bf16));
  cudaMemcpy(dA, a.data(), a.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  cudaMemcpy(dB, b.data(), b.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  launch(dA, dB, dC, M, N, K, 0);
  launch(dA, dB, dC, M, N, K, 0);
  if (cudaDeviceSynchronize() != cudaSuccess) return 2;
  cudaMemcpy(c.data(), dC, c.size() * sizeof(bf16), cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < c.size(); i += c.size() / 257 + 1) {
    double want = 0;
    for (int k = 0; k < K; k++)
      want += (double)__bfloat162float(a[i / N * K + k]) * __bfloat162float(b[(size_t)k * N + i % N]);
    if (std::fabs(want - __bfloat162float(c[i])) > 0.01 * std::fabs(want) + 0.01) {
      std::printf("differs at %zu\n", i);
      return 1;
    }
  }
  std::printf("all right\n");
  return 0;
}
