# SPDX-License-Identifier: Apache-2.0
"""loop-into-tiles

Make an outer loop an axis of the threads, then tile what they share through registers.

Where a thread walks all outputs of its row, and a product is each of them, the row's outputs are given to neighbouring
threads by [loop-into-threads](loop-into-threads.md), and [register-tile](register-tile.md) follows.

```cuda
__global__ void matmul(const float* A, const float* B, float* C, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < n) {
    for (int col = 0; col < n; ++col) {
      float sum = 0.0f;
      for (int k = 0; k < n; ++k) sum += A[row * n + k] * B[k * n + col];
      C[row * n + col] = sum;
    }
  }
}
void run(const float* A, const float* B, float* C, int n) {
  matmul<<<(n + 127) / 128, 128>>>(A, B, C, n);
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
  matmul<<<dim3((n + kTileX - 1) / kTileX, (n + kTileY - 1) / kTileY), dim3(kThreadsX, kThreadsY)>>>(A, B, C, n);
}
```
"""

from __future__ import annotations

from warplens_tools.rewrite import loop_into_threads, register_tile, tensor_tile
from warplens_tools.rewrite.common.chains import Chain

_TILED = (tensor_tile.REWRITE, register_tile.REWRITE)
_CHAIN = Chain(loop_into_threads.REWRITE, _TILED)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Make a loop an axis of the threads and tile through registers",
    answers=loop_into_threads.REWRITE.answers,
    chance=0.6,
    gain=12.0,
    ranges=register_tile.REWRITE.ranges,
)
