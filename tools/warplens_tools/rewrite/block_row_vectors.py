# SPDX-License-Identifier: Apache-2.0
"""block-row-vectors

Give each row to a block, which walks it in vectors of 8 or 16 bytes.

[block-per-row](block-per-row.md), one pass for a maximum and the sum of exponentials where a softmax has two, and
[widen-loop](widen-loop.md) on what each thread walks. Between passes the row is in the caches: [block-row-kept](
block-row-kept.md) keeps it in registers instead, element by element.

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

constexpr int kVector = 4;  // elements at a time, up to 16 bytes

__global__ void rmsNorm(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  int row = blockIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int first = kVector * threadIdx.x; first < cols; first += kVector * blockDim.x) {
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
  for (int first = kVector * threadIdx.x; first < cols; first += kVector * blockDim.x) {
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
    online_softmax,
    widen_loop,
)
from warplens_tools.rewrite.base import along_narrow_long_rows
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(block_per_row.REWRITE, online_softmax.REWRITE, widen_loop.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Give each row to a block, which walks it in vectors",
    answers=block_per_row.REWRITE.answers,
    likely=along_narrow_long_rows,
    chance=0.5,
    gain=8.0,
    ranges={**block_per_row.REWRITE.ranges},
)
