# SPDX-License-Identifier: Apache-2.0
"""ordered-tile

Number each axis by its own blocks and threads, then tile the operands of a product.

[axes-in-order](axes-in-order.md), so that a block may have a patch of outputs where it had a row of them or part of
one, and behind it [tensor-tile](tensor-tile.md) or [register-tile](register-tile.md).

```cuda
__global__ void matmul(const float* A, const float* B, float* C, int m, int n, int depth) {
  int row = blockIdx.x;
  int col = threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < depth; ++k) {
    sum += A[row * depth + k] * B[k * n + col];
  }
  C[row * n + col] = sum;
}
void run(const float* A, const float* B, float* C, int m, int n, int depth) {
  matmul<<<m, n>>>(A, B, C, m, n, depth);
}
```

```cuda
constexpr int kTileDepth = 16;  // steps of k held at a time
constexpr int kThreadsX = 16;  // threads of a block along col
constexpr int kOutputsX = 4;  // outputs of a thread along col
constexpr int kTileX = kThreadsX * kOutputsX;
constexpr int kThreadsY = 16;  // threads of a block along row
constexpr int kOutputsY = 4;  // outputs of a thread along row
constexpr int kTileY = kThreadsY * kOutputsY;

__global__ void matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int m, int n, int depth) {
  __shared__ float tileA[kTileDepth][kTileY + 4];
  __shared__ float tileB[kTileDepth][kTileX];
  const int thread = threadIdx.y * kThreadsX + threadIdx.x;
  const int row0 = blockIdx.y * kTileY;
  const int col0 = blockIdx.x * kTileX;
  float sum[kOutputsY][kOutputsX] = {};
  for (int k0 = 0; k0 < depth; k0 += kTileDepth) {
    for (int t = thread; t < kTileY * kTileDepth; t += kThreadsX * kThreadsY) {
      int row = row0 + t / kTileDepth;
      int k = k0 + t % kTileDepth;
      tileA[t % kTileDepth][t / kTileDepth] = row < m && k < depth ? A[row * depth + k] : 0.0f;
    }
    for (int t = thread; t < kTileDepth * kTileX; t += kThreadsX * kThreadsY) {
      int col = col0 + t % kTileX;
      int k = k0 + t / kTileX;
      tileB[t / kTileX][t % kTileX] = col < n && k < depth ? B[k * n + col] : 0.0f;
    }
    __syncthreads();
    #pragma unroll
    for (int kk = 0; kk < kTileDepth; ++kk) {
      #pragma unroll
      for (int i = 0; i < kOutputsY; ++i) {
        #pragma unroll
        for (int j = 0; j < kOutputsX; ++j) {
          sum[i][j] += tileA[kk][threadIdx.y * kOutputsY + i] * tileB[kk][threadIdx.x * kOutputsX + j];
        }
      }
    }
    __syncthreads();
  }
  #pragma unroll
  for (int i = 0; i < kOutputsY; ++i) {
    #pragma unroll
    for (int j = 0; j < kOutputsX; ++j) {
      int row = row0 + threadIdx.y * kOutputsY + i;
      int col = col0 + threadIdx.x * kOutputsX + j;
      if (row < m && col < n) C[row * n + col] = sum[i][j];
    }
  }
}
void run(const float* A, const float* B, float* C, int m, int n, int depth) {
  matmul<<<dim3((n + kTileX - 1) / kTileX, (m + kTileY - 1) / kTileY), dim3(kThreadsX, kThreadsY)>>>(A, B, C, m, n, depth);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.rewrite import axes_in_order, register_tile, tensor_tile
from warplens_tools.rewrite.common.chains import Chain

_TILED = (tensor_tile.REWRITE, register_tile.REWRITE)
_CHAIN = Chain(axes_in_order.REWRITE, _TILED)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Number each axis by its own blocks and threads and tile the operands",
    answers=("missing-cache-reuse", "small-register-tile"),
    useless_at="dram",
    chance=0.5,
    gain=8.0,
    ranges={**register_tile.REWRITE.ranges, **tensor_tile.REWRITE.ranges},
)
