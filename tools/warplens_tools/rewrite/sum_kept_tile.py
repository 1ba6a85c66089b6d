# SPDX-License-Identifier: Apache-2.0
"""sum-kept-tile

Sums that a kernel keeps in memory, as a product in registers and shared tiles.

[sum-in-register](sum-in-register.md), which leaves a loop that stores nothing, then
[swap-thread-axes](swap-thread-axes.md) where neighbouring threads have rows, and
[register-tile](register-tile.md).

```cuda
__global__ void gram(const float* X, float* G, int n, int d) {
  int i = blockIdx.y * blockDim.y + threadIdx.y;
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < d && j < d) {
    G[i * d + j] = 0.0f;
    for (int r = 0; r < n; ++r) G[i * d + j] += X[r * d + i] * X[r * d + j];
  }
}
void run(const float* X, float* G, int n, int d) {
  dim3 block(16, 16), grid((d + 15) / 16, (d + 15) / 16);
  gram<<<grid, block>>>(X, G, n, d);
}
```

```cuda
constexpr int kTileDepth = 16;  // steps of r held at a time
constexpr int kThreadsX = 16;  // threads of a block along j
constexpr int kOutputsX = 4;  // outputs of a thread along j
constexpr int kTileX = kThreadsX * kOutputsX;
constexpr int kThreadsY = 16;  // threads of a block along i
constexpr int kOutputsY = 4;  // outputs of a thread along i
constexpr int kTileY = kThreadsY * kOutputsY;

__global__ void gram(const float* __restrict__ X, float* __restrict__ G, int n, int d) {
  __shared__ float tileX[kTileDepth][kTileY];
  __shared__ float tileX2[kTileDepth][kTileX];
  const int thread = threadIdx.y * kThreadsX + threadIdx.x;
  const int i0 = blockIdx.y * kTileY;
  const int j0 = blockIdx.x * kTileX;
  float sum[kOutputsY][kOutputsX] = {};
  for (int r0 = 0; r0 < n; r0 += kTileDepth) {
    for (int t = thread; t < kTileDepth * kTileY; t += kThreadsX * kThreadsY) {
      int i = i0 + t % kTileY;
      int r = r0 + t / kTileY;
      tileX[t / kTileY][t % kTileY] = i < d && r < n ? X[r * d + i] : 0.0f;
    }
    for (int t = thread; t < kTileDepth * kTileX; t += kThreadsX * kThreadsY) {
      int j = j0 + t % kTileX;
      int r = r0 + t / kTileX;
      tileX2[t / kTileX][t % kTileX] = j < d && r < n ? X[r * d + j] : 0.0f;
    }
    __syncthreads();
    #pragma unroll
    for (int rr = 0; rr < kTileDepth; ++rr) {
      #pragma unroll
      for (int i2 = 0; i2 < kOutputsY; ++i2) {
        #pragma unroll
        for (int j2 = 0; j2 < kOutputsX; ++j2) {
          sum[i2][j2] += tileX[rr][threadIdx.y * kOutputsY + i2] * tileX2[rr][threadIdx.x * kOutputsX + j2];
        }
      }
    }
    __syncthreads();
  }
  #pragma unroll
  for (int i2 = 0; i2 < kOutputsY; ++i2) {
    #pragma unroll
    for (int j2 = 0; j2 < kOutputsX; ++j2) {
      int i = i0 + threadIdx.y * kOutputsY + i2;
      int j = j0 + threadIdx.x * kOutputsX + j2;
      if (i < d && j < d) G[i * d + j] = sum[i2][j2];
    }
  }
}
void run(const float* X, float* G, int n, int d) {
  dim3 block(kThreadsX, kThreadsY), grid((d + kTileX - 1) / kTileX, (d + kTileY - 1) / kTileY);
  gram<<<grid, block>>>(X, G, n, d);
}
```
"""

from __future__ import annotations

from warplens_tools.rewrite import (
    loop_into_tiles,
    register_tile,
    several_outputs,
    sum_in_register,
    swap_thread_axes,
    tensor_tile,
)
from warplens_tools.rewrite.base import in_planes_or_rows
from warplens_tools.rewrite.common.chains import Chain

_TILED = (tensor_tile.REWRITE, register_tile.REWRITE, several_outputs.REWRITE)
_AXES = (swap_thread_axes.REWRITE, loop_into_tiles.REWRITE)
_CHAIN = Chain(sum_in_register.REWRITE, _AXES, _TILED)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Add up in registers and tile what is added",
    answers=("aliasing-reload", "missing-cache-reuse"),
    likely=in_planes_or_rows,
    chance=0.5,
    gain=8.0,
    ranges=register_tile.REWRITE.ranges,
)
