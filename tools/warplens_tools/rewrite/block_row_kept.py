# SPDX-License-Identifier: Apache-2.0
"""block-row-kept

Give each row to a block, which keeps it in registers between its passes.

[block-per-row](block-per-row.md), and behind it what makes use of that: one pass for a maximum and the sum of
exponentials, the row kept in registers, vectors, pointers that are known not to overlap.

```cuda
__global__ void rmsNorm(const float* in, float* out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int j = 0; j < cols; ++j) {
    sum += in[row * cols + j] * in[row * cols + j];
  }
  float scale = rsqrtf(sum / cols + 1e-5f);
  for (int j = 0; j < cols; ++j) {
    out[row * cols + j] = in[row * cols + j] * scale;
  }
}

void run(const float* in, float* out, int rows, int cols) {
  rmsNorm<<<(rows + 255) / 256, 256>>>(in, out, rows, cols);
}
```

```cuda
__device__ float warpSum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, offset);
  }
  return value;
}

__device__ float blockSum(float value) {
  __shared__ float partial[32];
  const int warps = (blockDim.x + 31) / 32;
  value = warpSum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = warpSum(threadIdx.x % 32 < warps ? partial[threadIdx.x % 32] : 0.0f);
  __syncthreads();
  return value;
}

constexpr int kHeld = 8;  // elements of a row that a thread keeps

constexpr int kVector = 4;  // elements at a time, up to 16 bytes

__global__ void rmsNorm(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  int row = blockIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  float inHeld[kHeld];
  #pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    int j = threadIdx.x + h * blockDim.x;
    if (j < cols) {
      inHeld[h] = in[row * cols + j];
      sum += inHeld[h] * inHeld[h];
    }
  }
  for (int first = kHeld * blockDim.x + kVector * threadIdx.x; first < cols; first += kVector * blockDim.x) {
    if (first + kVector <= cols &&
        reinterpret_cast<size_t>(&in[row * cols + first]) % 16 == 0) {
      alignas(16) float inPart[kVector];
      *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&in[row * cols + first]);
      #pragma unroll
      for (int v = 0; v < kVector; ++v) {
        sum += inPart[v] * inPart[v];
      }
    } else {
      for (int j = first; j < cols && j < first + kVector; ++j) {
        sum += in[row * cols + j] * in[row * cols + j];
      }
    }
  }
  sum = blockSum(sum);
  float scale = rsqrtf(sum / cols + 1e-5f);
  #pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    int j = threadIdx.x + h * blockDim.x;
    if (j < cols) {
      out[row * cols + j] = inHeld[h] * scale;
    }
  }
  for (int first = kHeld * blockDim.x + kVector * threadIdx.x; first < cols; first += kVector * blockDim.x) {
    if (first + kVector <= cols &&
        reinterpret_cast<size_t>(&out[row * cols + first]) % 16 == 0 &&
        reinterpret_cast<size_t>(&in[row * cols + first]) % 16 == 0) {
      alignas(16) float outPart[kVector];
      alignas(16) float inPart[kVector];
      *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&in[row * cols + first]);
      #pragma unroll
      for (int v = 0; v < kVector; ++v) {
        outPart[v] = inPart[v] * scale;
      }
      *reinterpret_cast<float4*>(&out[row * cols + first]) = *reinterpret_cast<float4*>(outPart);
    } else {
      for (int j = first; j < cols && j < first + kVector; ++j) {
        out[row * cols + j] = in[row * cols + j] * scale;
      }
    }
  }
}

void run(const float* in, float* out, int rows, int cols) {
  rmsNorm<<<rows, 256>>>(in, out, rows, cols);
}
```
"""

from __future__ import annotations

from warplens_tools.rewrite import (
    block_per_row,
    hold_row,
    online_softmax,
    widen_loop,
)
from warplens_tools.rewrite.base import of_long_rows
from warplens_tools.rewrite.common.chains import Chain

_THEN = (online_softmax.REWRITE, hold_row.REWRITE, widen_loop.REWRITE)
_CHAIN = Chain(block_per_row.REWRITE, *_THEN)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Give each row to a block and keep it in registers",
    answers=block_per_row.REWRITE.answers,
    likely=of_long_rows,
    chance=0.5,
    gain=8.0,
    ranges={**block_per_row.REWRITE.ranges, **hold_row.REWRITE.ranges},
)
