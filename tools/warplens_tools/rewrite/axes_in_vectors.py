# SPDX-License-Identifier: Apache-2.0
"""axes-in-vectors

Number outputs along the axes of the launch, and access several neighbouring ones at a time.

[index-into-axes](index-into-axes.md) where one number is divided into column and row, which spares the divisions and
tells where neighbours lie, and [widen-access](widen-access.md) behind it, or, where a loop walks down from each,
[columns-in-vectors](columns-in-vectors.md).

```cuda
__global__ void gate(const float* in, float* out, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  int row = i / cols;
  int col = i % cols;
  out[i] = in[row * 2 * cols + col] * in[row * 2 * cols + cols + col];
}
void run(const float* in, float* out, int rows, int cols) {
  gate<<<(rows * cols + 255) / 256, 256>>>(in, out, rows, cols);
}
```

```cuda
constexpr int kVector = 4;  // elements of a thread, up to 16 bytes at a time

__global__ void gate(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const int first = kVector * (blockIdx.x * blockDim.x + threadIdx.x);
  if (first + kVector <= cols &&
      reinterpret_cast<size_t>(&out[row * cols + first]) % 16 == 0 &&
      reinterpret_cast<size_t>(&in[row * 2 * cols + first]) % 16 == 0 &&
      reinterpret_cast<size_t>(&in[row * 2 * cols + cols + first]) % 16 == 0) {
    alignas(16) float outPart[kVector];
    alignas(16) float inPart[kVector];
    *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&in[row * 2 * cols + first]);
    alignas(16) float inPart2[kVector];
    *reinterpret_cast<float4*>(inPart2) = *reinterpret_cast<const float4*>(&in[row * 2 * cols + cols + first]);
    #pragma unroll
    for (int v = 0; v < kVector; ++v) {
      int col = first + v;
      int i = row * cols + col;
      outPart[v] = inPart[v] * inPart2[v];
    }
    *reinterpret_cast<float4*>(&out[row * cols + first]) = *reinterpret_cast<float4*>(outPart);
  } else {
    for (int col = first; col < cols && col < first + kVector; ++col) {
      int i = row * cols + col;
      out[i] = in[row * 2 * cols + col] * in[row * 2 * cols + cols + col];
    }
  }
}
void run(const float* in, float* out, int rows, int cols) {
  gate<<<dim3(((cols + 31) / 32 + kVector - 1) / kVector, (rows + 7) / 8), dim3(32, 8)>>>(in, out, rows, cols);
}
```
"""

from __future__ import annotations

from warplens_tools.rewrite import columns_in_vectors, index_into_axes, widen_access
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(index_into_axes.REWRITE, (widen_access.REWRITE, columns_in_vectors.REWRITE))

REWRITE = _CHAIN.rewrite(
    __name__,
    "Number outputs along axes and access several at a time",
    answers=("scalar-access", "integer-division"),
    chance=0.5,
    gain=1.8,
    ranges={**widen_access.REWRITE.ranges, **columns_in_vectors.REWRITE.ranges},
)
