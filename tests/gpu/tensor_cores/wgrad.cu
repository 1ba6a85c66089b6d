// SPDX-License-Identifier: Apache-2.0
// The weight gradients of a mixture of experts: dW[e] = X[e]^T * dY[e], where the tokens of expert e are the rows
// offsets[e] to offsets[e + 1] of X (tokens by D) and dY (tokens by F). An element a thread, sums in float.
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

__global__ void wgrad(const bf16* X, const bf16* dY, const int* offsets, float* dW, int D, int F) {
  int d = blockIdx.y * kTileM + threadIdx.y;
  int f = blockIdx.x * kTileN + threadIdx.x;
  int expert = blockIdx.z;
  if (d < D && f < F) {
    float sum = 0.0f;
    for (int t = offsets[expert]; t < offsets[expert + 1]; t++)
      sum += __bfloat162float(X[(size_t)t * D + d]) * __bfloat162float(dY[(size_t)t * F + f]);
    dW[((size_t)expert * D + d) * F + f] = sum;
  }
}

extern "C" void launch(const bf16* X, const bf16* dY, const int* offsets, float* dW, int experts, int D, int F,
                       cudaStream_t stream) {
  dim3 block(kBlockX, kBlockY), grid((F + kTileN - 1) / kTileN, (D + kTileM - 1) / kTileM, experts);
  cudaFuncSetAttribute(wgrad, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  wgrad<<<grid, block, kShared, stream>>>(X, dY, offsets, dW, D, F);
}

int main(int argc, char** argv) {
  int tokens = argc > 1 ? atoi(argv[1]) : 4096;
  int D = argc > 2 ? atoi(argv[2]) : 1024;
  int F = argc > 3 ? atoi(argv[3]) : 2048;
  int experts = argc > 4 ? atoi(argv[4]) : 8;
  std::vector<bf16> x((size_t)tokens * D), dy((size_t)tokens * F);
  std::vector<float> dw((size_t)experts * D * F);
  std::vector<int> offsets(experts + 1);
  unsigned state = 1;
  auto next = [&] { return ((state = state * 1664525u + 1013904223u) >> 8) * (2.0f / (1 << 24)) - 1.0f; };
  for (auto& v : x) v = __float2bfloat16(next());
  for (auto& v : dy) v = __float2bfloat16(next());
  // what a router gives: some experts get twice as many tokens as others
  double total = 0, sum = 0;
  std::vector<double> share(experts);
  for (auto& s : share) total += s = 1.5 + 0.5 * next();
  for (int e = 0; e < experts; e++) offsets[e + 1] = (int)((sum += share[e]) / total * tokens + 0.5);
  bf16 *dX, *dDY;
  int* dOffsets;
  float* dDW;
  cudaMalloc(&dX, x.size() * sizeof(bf16));
  cudaMalloc(&dDY, dy.size() * sizeof(bf16));
  cudaMalloc(&dOffsets, offsets.size() * sizeof(int));
  cudaMalloc(&dDW, dw.size() * sizeof(float));
  cudaMemcpy(dX, x.data(), x.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  cudaMemcpy(dDY, dy.data(), dy.size() * sizeof(bf16), cudaMemcpyHostToDevice);
  cudaMemcpy(dOffsets, offsets.data(), offsets.size() * sizeof(int), cudaMemcpyHostToDevice);
  launch(dX, dDY, dOffsets, dDW, experts, D, F, 0);
  launch(dX, dDY, dOffsets, dDW, experts, D, F, 0);
  if (cudaDeviceSynchronize() != cudaSuccess) return 2;
  cudaMemcpy(dw.data(), dDW, dw.size() * sizeof(float), cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < dw.size(); i += dw.size() / 257 + 1) {
    size_t expert = i / ((size_t)D * F), d = i / F % D, f = i % F;
    double want = 0;
    for (int t = offsets[expert]; t < offsets[expert + 1]; t++)
      want += (double)__bfloat162float(x[(size_t)t * D + d]) * __bfloat162float(dy[(size_t)t * F + f]);
    if (std::fabs(want - dw[i]) > 1e-3 * std::fabs(want) + 1e-3) {
      std::printf("differs at %zu\n", i);
      return 1;
    }
  }
  std::printf("all right\n");
  return 0;
}
