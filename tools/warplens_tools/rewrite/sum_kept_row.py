# SPDX-License-Identifier: Apache-2.0
"""sum-kept-row

Sums that a kernel keeps in memory, in a register and then by many threads.

[sum-in-register](sum-in-register.md), which leaves a loop that stores nothing, then
[split-columns](split-columns.md) where neighbouring threads walk columns side by side, or
[warp-per-row](warp-per-row.md).

```cuda
__global__ void matvec(const float* A, const float* x, float* y, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows) {
    y[i] = 0.0f;
    for (int j = 0; j < cols; ++j) y[i] += A[i * cols + j] * x[j];
  }
}
void run(const float* A, const float* x, float* y, int rows, int cols) {
  matvec<<<(rows + 255) / 256, 256>>>(A, x, y, rows, cols);
}
```

```cuda
constexpr int kLanesPerRow = 32;

__device__ float lanes_sum(float value) {
  const unsigned mask = 0xffffffffu >> (32 - kLanesPerRow) << (threadIdx.x % 32 / kLanesPerRow * kLanesPerRow);
  for (int offset = kLanesPerRow / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(mask, value, offset);
  }
  return value;
}

constexpr int kVector = 4;  // elements at a time, up to 16 bytes

__global__ void matvec(const float* __restrict__ A, const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int lane = threadIdx.x % kLanesPerRow;
  int i = blockIdx.x * (blockDim.x / kLanesPerRow) + threadIdx.x / kLanesPerRow;
  if (i < rows) {
    float sum = 0.0f;
    for (int first = kVector * lane; first < cols; first += kVector * kLanesPerRow) {
      if (first + kVector <= cols &&
          reinterpret_cast<size_t>(&A[i * cols + first]) % 16 == 0 &&
          reinterpret_cast<size_t>(&x[first]) % 16 == 0) {
        alignas(16) float APart[kVector];
        *reinterpret_cast<float4*>(APart) = *reinterpret_cast<const float4*>(&A[i * cols + first]);
        alignas(16) float xPart[kVector];
        *reinterpret_cast<float4*>(xPart) = *reinterpret_cast<const float4*>(&x[first]);
        #pragma unroll
        for (int v = 0; v < kVector; ++v) {
          sum += APart[v] * xPart[v];
        }
      } else {
        for (int j = first; j < cols && j < first + kVector; ++j) {
          sum += A[i * cols + j] * x[j];
        }
      }
    }
    sum = lanes_sum(sum);
    if (lane == 0) y[i] = sum;
  }
}
void run(const float* A, const float* x, float* y, int rows, int cols) {
  matvec<<<(rows + 255) / 256 * kLanesPerRow, 256>>>(A, x, y, rows, cols);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.rewrite import split_columns, sum_in_register, warp_per_row, widen_loop
from warplens_tools.rewrite.base import along_one_axis
from warplens_tools.rewrite.common.chains import Chain

_SHARED = (warp_per_row.REWRITE, split_columns.REWRITE)
_CHAIN = Chain(sum_in_register.REWRITE, _SHARED, widen_loop.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Add up in a register and share each row or column",
    answers=("aliasing-reload", "uncoalesced-global-read", "grid-too-small"),
    likely=along_one_axis,
    chance=0.5,
    gain=8.0,
    ranges={**warp_per_row.REWRITE.ranges, **split_columns.REWRITE.ranges},
)
