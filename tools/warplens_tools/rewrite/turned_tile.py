# SPDX-License-Identifier: Apache-2.0
"""turned-tile

Turn the threads of a product round, then tile it through registers.

[swap-thread-axes](swap-thread-axes.md) so that neighbouring threads have neighbouring columns, then
[register-tile](register-tile.md).

```cuda
__global__ void matmul(const float* A, const float* B, float* C, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  int col = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < n && col < n) {
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum += A[row * n + k] * B[k * n + col];
    C[row * n + col] = sum;
  }
}
void run(const float* A, const float* B, float* C, int n) {
  dim3 block(16, 16), grid((n + 15) / 16, (n + 15) / 16);
  matmul<<<grid, block>>>(A, B, C, n);
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

__global__ void matmul(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int n) {
  __shared__ float tileA[kTileDepth][kTileY + 4];
  __shared__ float tileB[kTileDepth][kTileX];
  const int thread = threadIdx.y * kThreadsX + threadIdx.x;
  const int row0 = blockIdx.y * kTileY;
  const int col0 = blockIdx.x * kTileX;
  float sum[kOutputsY][kOutputsX] = {};
  for (int k0 = 0; k0 < n; k0 += kTileDepth) {
    for (int t = thread; t < kTileY * kTileDepth; t += kThreadsX * kThreadsY) {
      int row = row0 + t / kTileDepth;
      int k = k0 + t % kTileDepth;
      tileA[t % kTileDepth][t / kTileDepth] = row < n && k < n ? A[row * n + k] : 0.0f;
    }
    for (int t = thread; t < kTileDepth * kTileX; t += kThreadsX * kThreadsY) {
      int col = col0 + t % kTileX;
      int k = k0 + t / kTileX;
      tileB[t / kTileX][t % kTileX] = col < n && k < n ? B[k * n + col] : 0.0f;
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
      if (row < n && col < n) C[row * n + col] = sum[i][j];
    }
  }
}
void run(const float* A, const float* B, float* C, int n) {
  dim3 block(kThreadsX, kThreadsY), grid((n + kTileX - 1) / kTileX, (n + kTileY - 1) / kTileY);
  matmul<<<grid, block>>>(A, B, C, n);
}
```
"""

from __future__ import annotations

from warplens_tools.rewrite import (
    register_tile,
    several_outputs,
    swap_thread_axes,
    tensor_tile,
    transpose_tile,
)
from warplens_tools.rewrite.common.chains import Chain

_TILED = (tensor_tile.REWRITE, register_tile.REWRITE, transpose_tile.REWRITE, several_outputs.REWRITE)
_CHAIN = Chain(swap_thread_axes.REWRITE, _TILED)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Turn the threads round and tile through registers",
    answers=("uncoalesced-global-read", "uncoalesced-global-write", "missing-cache-reuse"),
    chance=0.5,
    gain=8.0,
    ranges=register_tile.REWRITE.ranges,
)
