# SPDX-License-Identifier: Apache-2.0
"""strided-tile

Give the outputs that a block strides over to blocks of their own, then tile the operands of a product.

[stride-into-grid](stride-into-grid.md), so that a block may have a patch of outputs where it had a row of them, and
behind it [ordered-tile](ordered-tile.md) or [register-tile](register-tile.md).

```cuda
__global__ void linear(const float* x, const float* w, float* y, int rows, int outputs, int depth) {
  int row = blockIdx.x;
  if (row >= rows) return;
  for (int col = threadIdx.x; col < outputs; col += blockDim.x) {
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum += x[row * depth + k] * w[k * outputs + col];
    y[row * outputs + col] = sum;
  }
}
void run(const float* x, const float* w, float* y, int rows, int outputs, int depth) {
  linear<<<rows, 256>>>(x, w, y, rows, outputs, depth);
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

__global__ void linear(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int rows, int outputs, int depth) {
  __shared__ float tileX[kTileDepth][kTileY + 4];
  __shared__ float tileW[kTileDepth][kTileX];
  const int thread = threadIdx.y * kThreadsX + threadIdx.x;
  const int row0 = blockIdx.y * kTileY;
  const int col0 = blockIdx.x * kTileX;
  float sum[kOutputsY][kOutputsX] = {};
  for (int k0 = 0; k0 < depth; k0 += kTileDepth) {
    for (int t = thread; t < kTileY * kTileDepth; t += kThreadsX * kThreadsY) {
      int row = row0 + t / kTileDepth;
      int k = k0 + t % kTileDepth;
      tileX[t % kTileDepth][t / kTileDepth] = row < rows && k < depth ? x[row * depth + k] : 0.0f;
    }
    for (int t = thread; t < kTileDepth * kTileX; t += kThreadsX * kThreadsY) {
      int col = col0 + t % kTileX;
      int k = k0 + t / kTileX;
      tileW[t / kTileX][t % kTileX] = col < outputs && k < depth ? w[k * outputs + col] : 0.0f;
    }
    __syncthreads();
    #pragma unroll
    for (int kk = 0; kk < kTileDepth; ++kk) {
      #pragma unroll
      for (int i = 0; i < kOutputsY; ++i) {
        #pragma unroll
        for (int j = 0; j < kOutputsX; ++j) {
          sum[i][j] += tileX[kk][threadIdx.y * kOutputsY + i] * tileW[kk][threadIdx.x * kOutputsX + j];
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
      if (row < rows && col < outputs) y[row * outputs + col] = sum[i][j];
    }
  }
}
void run(const float* x, const float* w, float* y, int rows, int outputs, int depth) {
  linear<<<dim3((outputs + kTileX - 1) / kTileX, (rows + kTileY - 1) / kTileY), dim3(kThreadsX, kThreadsY)>>>(x, w, y, rows, outputs, depth);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.rewrite import ordered_tile, register_tile, stride_into_grid, tensor_tile
from warplens_tools.rewrite.common.chains import Chain

_TILED = (ordered_tile.REWRITE, tensor_tile.REWRITE, register_tile.REWRITE)
_CHAIN = Chain(stride_into_grid.REWRITE, _TILED)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Give a block a patch of outputs where it strode over a row, and tile the operands",
    answers=("missing-cache-reuse", "small-register-tile"),
    useless_at="dram",
    chance=0.5,
    gain=8.0,
    ranges={**register_tile.REWRITE.ranges, **tensor_tile.REWRITE.ranges},
)
