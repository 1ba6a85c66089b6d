# SPDX-License-Identifier: Apache-2.0
"""section-kept

Share what one thread does for its block, and keep what the block walks in registers.

[share-serial-section](share-serial-section.md), and behind it what makes use of that: one pass for a maximum and the
sum of exponentials, the row kept in registers, vectors, pointers that are known not to overlap.

```cuda
__global__ void center(const float* in, float* out, int cols) {
  __shared__ float mean;
  int row = blockIdx.x;
  if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (int j = 0; j < cols; ++j) sum += in[row * cols + j];
    mean = sum / cols;
  }
  __syncthreads();
  for (int j = threadIdx.x; j < cols; j += blockDim.x) {
    out[row * cols + j] = in[row * cols + j] - mean;
  }
}
void run(const float* in, float* out, int rows, int cols) {
  center<<<rows, 256>>>(in, out, cols);
}
```

```cuda
__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, offset);
  }
  return value;
}

__device__ float block_sum(float value) {
  __shared__ float partial[32];
  const int warps = (blockDim.x + 31) / 32;
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = warp_sum(threadIdx.x % 32 < warps ? partial[threadIdx.x % 32] : 0.0f);
  __syncthreads();
  return value;
}

constexpr int kHeld = 8;  // elements of a row that a thread keeps

constexpr int kVector = 4;  // elements at a time, up to 16 bytes

__global__ void center(const float* __restrict__ in, float* __restrict__ out, int cols) {
  __shared__ float mean;
  int row = blockIdx.x;
  float inHeld[kHeld];
  {
    float sum = 0.0f;
    #pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      int j = threadIdx.x + h * blockDim.x;
      if (j < cols) {
        inHeld[h] = in[row * cols + j];
        sum += inHeld[h];
      }
    }
    for (int first = kHeld * blockDim.x + kVector * threadIdx.x; first < cols; first += kVector * blockDim.x) {
      if (first + kVector <= cols &&
          reinterpret_cast<size_t>(&in[row * cols + first]) % 16 == 0) {
        alignas(16) float inPart[kVector];
        *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&in[row * cols + first]);
        #pragma unroll
        for (int v = 0; v < kVector; ++v) {
          sum += inPart[v];
        }
      } else {
        for (int j = first; j < cols && j < first + kVector; ++j) {
          sum += in[row * cols + j];
        }
      }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) mean = sum / cols;
  }
  __syncthreads();
  #pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    int j = threadIdx.x + h * blockDim.x;
    if (j < cols) {
      out[row * cols + j] = inHeld[h] - mean;
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
        outPart[v] = inPart[v] - mean;
      }
      *reinterpret_cast<float4*>(&out[row * cols + first]) = *reinterpret_cast<float4*>(outPart);
    } else {
      for (int j = first; j < cols && j < first + kVector; ++j) {
        out[row * cols + j] = in[row * cols + j] - mean;
      }
    }
  }
}
void run(const float* in, float* out, int rows, int cols) {
  center<<<rows, 256>>>(in, out, cols);
}
```
"""

from __future__ import annotations

from warplens_tools.rewrite import hold_row, online_softmax, share_serial_section, widen_loop
from warplens_tools.rewrite.common.chains import Chain

_THEN = (online_softmax.REWRITE, hold_row.REWRITE, widen_loop.REWRITE)
_CHAIN = Chain(share_serial_section.REWRITE, *_THEN)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Share what one thread does for its block, in registers or vectors",
    answers=share_serial_section.REWRITE.answers,
    chance=0.55,
    gain=8.0,
    ranges=hold_row.REWRITE.ranges,
)
