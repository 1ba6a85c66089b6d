# SPDX-License-Identifier: Apache-2.0
"""axes-sum-columns

Number elements by row and column, and let each thread go down several rows of its column before an atomic.

[index-into-axes](index-into-axes.md) and, behind it, [sum-down-columns](sum-down-columns.md): where one number is
divided into row and column, a thread's next element is no neighbour below until it is numbered by both.

```cuda
__global__ void bias_gradient(const float* dy, float* dx, float* dbias, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * cols) return;
  int col = i % cols;
  float grad = fmaxf(dy[i], 0.0f);
  dx[i] = grad;
  atomicAdd(&dbias[col], grad);
}
void run(const float* dy, float* dx, float* dbias, int rows, int cols) {
  bias_gradient<<<(rows * cols + 255) / 256, 256>>>(dy, dx, dbias, rows, cols);
}
```

```cuda
constexpr int kItemsPerThread = 32;  // rows

__global__ void bias_gradient(const float* __restrict__ dy, float* __restrict__ dx, float* __restrict__ dbias, int rows, int cols) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  float partial = 0.0f;
  for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < rows; y += blockDim.y * gridDim.y) {
    int i = y * cols + col;
    float grad = fmaxf(dy[i], 0.0f);
    dx[i] = grad;
    partial += grad;
  }
  atomicAdd(&dbias[col], partial);
}
void run(const float* dy, float* dx, float* dbias, int rows, int cols) {
  bias_gradient<<<dim3((cols + 31) / 32, ((rows + 7) / 8 + kItemsPerThread - 1) / kItemsPerThread), dim3(32, 8)>>>(dy, dx, dbias, rows, cols);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.rewrite import index_into_axes, sum_down_columns
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(index_into_axes.REWRITE, sum_down_columns.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Number elements along axes and sum down columns before the atomic",
    answers=("global-atomic-contention",),
    chance=0.7,
    gain=9.0,
    ranges=sum_down_columns.REWRITE.ranges,
)
