# SPDX-License-Identifier: Apache-2.0
"""loop-into-columns

Make an outer loop an axis of the threads, then let each of them walk several neighbouring columns.

Where a thread walks all columns of its row, and each is a sum over rows that data name, the columns are given to
neighbouring threads by [loop-into-threads](loop-into-threads.md), and [columns-in-vectors](columns-in-vectors.md)
follows.

```cuda
__global__ void spmm(const int* ends, const int* columns, const float* values, const float* B, float* C, int rows, int width) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  for (int j = 0; j < width; ++j) {
    float sum = 0.0f;
    for (int p = ends[row]; p < ends[row + 1]; ++p) sum += values[p] * B[columns[p] * width + j];
    C[row * width + j] = sum;
  }
}
void run(const int* ends, const int* columns, const float* values, const float* B, float* C, int rows, int width) {
  spmm<<<(rows + 127) / 128, 128>>>(ends, columns, values, B, C, rows, width);
}
```

```cuda
constexpr int kVector = 4;  // columns of a thread, up to 16 bytes

__global__ void spmm(const int* __restrict__ ends, const int* __restrict__ columns, const float* __restrict__ values, const float* __restrict__ B, float* __restrict__ C, int rows, int width) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const int j0 = kVector * (blockIdx.x * blockDim.x + threadIdx.x);
  if (j0 + kVector <= width && width % kVector == 0 && reinterpret_cast<size_t>(B) % 16 == 0 && reinterpret_cast<size_t>(C) % 16 == 0) {
    float sum[kVector] = {};
    for (int p = ends[row]; p < ends[row + 1]; ++p) {
      alignas(16) float BPart[kVector];
      *reinterpret_cast<float4*>(BPart) = *reinterpret_cast<const float4*>(&B[columns[p] * width + j0]);
      #pragma unroll
      for (int o = 0; o < kVector; ++o) {
        int j = j0 + o;
        sum[o] += values[p] * BPart[o];
      }
    }
    alignas(16) float CPart[kVector];
    #pragma unroll
    for (int o = 0; o < kVector; ++o) {
      int j = j0 + o;
      CPart[o] = sum[o];
    }
    *reinterpret_cast<float4*>(&C[row * width + j0]) = *reinterpret_cast<const float4*>(CPart);
  } else {
    for (int j = j0; j < width && j < j0 + kVector; ++j) {
      float sum = 0.0f;
      for (int p = ends[row]; p < ends[row + 1]; ++p) sum += values[p] * B[columns[p] * width + j];
      C[row * width + j] = sum;
    }
  }
}
void run(const int* ends, const int* columns, const float* values, const float* B, float* C, int rows, int width) {
  spmm<<<dim3((width + 32 - 1) / 32, (rows + (8 * kVector) - 1) / (8 * kVector)), dim3(32 / kVector, 8 * kVector)>>>(ends, columns, values, B, C, rows, width);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.rewrite import columns_in_vectors, loop_into_threads
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(loop_into_threads.REWRITE, columns_in_vectors.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Make a loop an axis of the threads and walk several neighbouring columns",
    answers=loop_into_threads.REWRITE.answers,
    chance=0.5,
    gain=8.0,
    ranges={**loop_into_threads.REWRITE.ranges, **columns_in_vectors.REWRITE.ranges},
)
