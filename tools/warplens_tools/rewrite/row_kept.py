# SPDX-License-Identifier: Apache-2.0
"""row-kept

What is left to win where the threads of a block share a row already.

The row stays in registers between passes ([hold-row](hold-row.md)), trees in shared memory become shuffles
([warp-reduction](warp-reduction.md)), and what is left of the walks goes in vectors ([widen-loop](widen-loop.md)).

```cuda
__global__ void shift(const float* in, float* out, int cols) {
  __shared__ float part[256];
  int row = blockIdx.x, tid = threadIdx.x;
  float sum = 0.0f;
  for (int i = tid; i < cols; i += blockDim.x) sum += in[row * cols + i];
  part[tid] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) part[tid] += part[tid + s];
    __syncthreads();
  }
  float mean = part[0] / cols;
  for (int i = tid; i < cols; i += blockDim.x) out[row * cols + i] = in[row * cols + i] - mean;
}
void run(const float* in, float* out, int rows, int cols) {
  shift<<<rows, 256>>>(in, out, cols);
}
```

```cuda
constexpr int kHeld = 8;  // elements of a row that a thread keeps

constexpr int kVector = 4;  // elements at a time, up to 16 bytes

__global__ void shift(const float* __restrict__ in, float* __restrict__ out, int cols) {
  __shared__ float part[256];
  int row = blockIdx.x, tid = threadIdx.x;
  float sum = 0.0f;
  float inHeld[kHeld];
  #pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    int i = tid + h * blockDim.x;
    if (i < cols) {
      inHeld[h] = in[row * cols + i];
      sum += inHeld[h];
    }
  }
  for (int first2 = kHeld * blockDim.x + kVector * tid; first2 < cols; first2 += kVector * blockDim.x) {
    if (first2 + kVector <= cols &&
        reinterpret_cast<size_t>(&in[row * cols + first2]) % 16 == 0) {
      alignas(16) float inPart[kVector];
      *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&in[row * cols + first2]);
      #pragma unroll
      for (int v = 0; v < kVector; ++v) {
        sum += inPart[v];
      }
    } else {
      for (int i = first2; i < cols && i < first2 + kVector; ++i) {
        sum += in[row * cols + i];
      }
    }
  }
  part[tid] = sum;
  __syncthreads();
  // Each warp by shuffles, then the first one what they came to.
  float value = part[tid];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
  __syncthreads();
  if (tid % 32 == 0) part[tid / 32] = value;
  __syncthreads();
  if (tid < 32) {
    value = tid < blockDim.x / 32 ? part[tid] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
    if (tid == 0) part[0] = value;
  }
  __syncthreads();
  float mean = part[0] / cols;
  #pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    int i = tid + h * blockDim.x;
    if (i < cols) {
      out[row * cols + i] = inHeld[h] - mean;
    }
  }
  for (int first2 = kHeld * blockDim.x + kVector * tid; first2 < cols; first2 += kVector * blockDim.x) {
    if (first2 + kVector <= cols &&
        reinterpret_cast<size_t>(&out[row * cols + first2]) % 16 == 0 &&
        reinterpret_cast<size_t>(&in[row * cols + first2]) % 16 == 0) {
      alignas(16) float outPart[kVector];
      alignas(16) float inPart[kVector];
      *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&in[row * cols + first2]);
      #pragma unroll
      for (int v = 0; v < kVector; ++v) {
        outPart[v] = inPart[v] - mean;
      }
      *reinterpret_cast<float4*>(&out[row * cols + first2]) = *reinterpret_cast<float4*>(outPart);
    } else {
      for (int i = first2; i < cols && i < first2 + kVector; ++i) {
        out[row * cols + i] = in[row * cols + i] - mean;
      }
    }
  }
}
void run(const float* in, float* out, int rows, int cols) {
  shift<<<rows, 256>>>(in, out, cols);
}
```
"""

from __future__ import annotations

from warplens_tools.rewrite import hold_row, warp_reduction, widen_loop
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(hold_row.REWRITE, warp_reduction.REWRITE, widen_loop.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Keep a block's row in registers, and join its threads by shuffles",
    answers=("missing-cache-reuse", "barrier-heavy", "scalar-access"),
    chance=0.5,
    gain=2.0,
    ranges=hold_row.REWRITE.ranges,
)
