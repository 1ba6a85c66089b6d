# SPDX-License-Identifier: Apache-2.0
"""row-in-warp

Read each row once, in vectors that the lanes of a warp keep.

What [row-in-registers](row-in-registers.md) does, with a warp for each row: rows that are shorter than a block is wide leave no
thread idle, and what the lanes fold is joined without a barrier.

```cuda
__global__ void softmax(const half* in, half* out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const half* x = in + row * cols;
  float sum = 0.0f;
  for (int j = 0; j < cols; ++j) sum += __expf(__half2float(x[j]));
  for (int j = 0; j < cols; ++j) out[row * cols + j] = __float2half(__expf(__half2float(x[j])) / sum);
}

void run(const half* in, half* out, int rows, int cols) {
  softmax<<<(rows + 255) / 256, 256>>>(in, out, rows, cols);
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

constexpr int kHeldVectors = 8;  // vectors of a row that a thread keeps
constexpr int kElements = 8;  // elements of a vector

constexpr int kVector = 8;  // elements at a time, up to 16 bytes

__global__ void softmax(const half* __restrict__ in, half* __restrict__ out, int rows, int cols) {
  const int lane = threadIdx.x % kLanesPerRow;
  int row = blockIdx.x * (blockDim.x / kLanesPerRow) + threadIdx.x / kLanesPerRow;
  if (row >= rows) return;
  const half* x = in + row * cols;
  float sum = 0.0f;
  alignas(16) half xHeld[kHeldVectors * kElements];
  #pragma unroll
  for (int h = 0; h < kHeldVectors; ++h) {
    const int first = kElements * (lane + h * kLanesPerRow);
    if (first + kElements <= cols && reinterpret_cast<size_t>(&x[first]) % 16 == 0) {
      *reinterpret_cast<uint4*>(&xHeld[h * kElements]) = *reinterpret_cast<const uint4*>(&x[first]);
    } else {
      #pragma unroll
      for (int v = 0; v < kElements; ++v) {
        int j = first + v;
        if (j < cols) {
          xHeld[h * kElements + v] = x[j];
        }
      }
    }
    #pragma unroll
    for (int v = 0; v < kElements; ++v) {
      int j = first + v;
      if (j < cols) {
        sum += __expf(__half2float(xHeld[h * kElements + v]));
      }
    }
  }
  for (int first2 = kHeldVectors * kElements * kLanesPerRow + kVector * lane; first2 < cols; first2 += kVector * kLanesPerRow) {
    if (first2 + kVector <= cols &&
        reinterpret_cast<size_t>(&x[first2]) % 16 == 0) {
      alignas(16) half inPart[kVector];
      *reinterpret_cast<uint4*>(inPart) = *reinterpret_cast<const uint4*>(&x[first2]);
      #pragma unroll
      for (int v2 = 0; v2 < kVector; ++v2) {
        sum += __expf(__half2float(inPart[v2]));
      }
    } else {
      for (int j = first2; j < cols && j < first2 + kVector; ++j) {
        sum += __expf(__half2float(x[j]));
      }
    }
  }
  sum = lanes_sum(sum);
  #pragma unroll
  for (int h = 0; h < kHeldVectors; ++h) {
    const int first = kElements * (lane + h * kLanesPerRow);
    alignas(16) half outPart[kElements];
    #pragma unroll
    for (int v = 0; v < kElements; ++v) {
      int j = first + v;
      if (j < cols) {
        outPart[v] = __float2half(__expf(__half2float(xHeld[h * kElements + v])) / sum);
      }
    }
    if (first + kElements <= cols && reinterpret_cast<size_t>(&out[row * cols + first]) % 16 == 0) {
      *reinterpret_cast<uint4*>(&out[row * cols + first]) = *reinterpret_cast<uint4*>(&outPart[0]);
    } else {
      #pragma unroll
      for (int v = 0; v < kElements; ++v) {
        int j = first + v;
        if (j < cols) {
          out[row * cols + j] = outPart[v];
        }
      }
    }
  }
  for (int first2 = kHeldVectors * kElements * kLanesPerRow + kVector * lane; first2 < cols; first2 += kVector * kLanesPerRow) {
    if (first2 + kVector <= cols &&
        reinterpret_cast<size_t>(&out[row * cols + first2]) % 16 == 0 &&
        reinterpret_cast<size_t>(&x[first2]) % 16 == 0) {
      alignas(16) half outPart2[kVector];
      alignas(16) half inPart[kVector];
      *reinterpret_cast<uint4*>(inPart) = *reinterpret_cast<const uint4*>(&x[first2]);
      #pragma unroll
      for (int v2 = 0; v2 < kVector; ++v2) {
        outPart2[v2] = __float2half(__expf(__half2float(inPart[v2])) / sum);
      }
      *reinterpret_cast<uint4*>(&out[row * cols + first2]) = *reinterpret_cast<uint4*>(outPart2);
    } else {
      for (int j = first2; j < cols && j < first2 + kVector; ++j) {
        out[row * cols + j] = __float2half(__expf(__half2float(x[j])) / sum);
      }
    }
  }
}

void run(const half* in, half* out, int rows, int cols) {
  softmax<<<(rows + 255) / 256 * kLanesPerRow, 256>>>(in, out, rows, cols);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.idioms.common.first_of import first_of
from warplens_tools.idioms.common.rows_in_vectors import RANGES, VECTORS_KEPT
from warplens_tools.rewrite import warp_per_row, widen_loop
from warplens_tools.rewrite.base import Rewrite, along_one_axis
from warplens_tools.rewrite.common.chains import Chain

TITLE = "Read each row once, in vectors that its warp keeps"

REWRITE = Rewrite(
    slug="row-in-warp",
    title=TITLE,
    apply=first_of(
        (Chain(warp_per_row.REWRITE, VECTORS_KEPT, widen_loop.REWRITE),), "kHeldVectors", TITLE, __name__
    ),
    answers=warp_per_row.REWRITE.answers,
    likely=along_one_axis,
    chance=0.6,
    gain=10.0,
    ranges={**warp_per_row.REWRITE.ranges, **RANGES},
)
