# SPDX-License-Identifier: Apache-2.0
"""sum-in-vectors

Add up or count within the block before atomics go to memory, and load the data in vectors.

[reduce-before-atomic](reduce-before-atomic.md) and, behind it, [widen-loop](widen-loop.md) on the loop that it makes.

```cuda
__global__ void sum(const float* values, float* result, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(result, values[i]);
}
void run(const float* values, float* result, int n) {
  sum<<<(n + 255) / 256, 256>>>(values, result, n);
}
```

```cuda
constexpr int kItemsPerThread = 16;

constexpr int kVector = 4;  // elements at a time, up to 16 bytes

__global__ void sum(const float* __restrict__ values, float* __restrict__ result, int n) {
  float partial = 0.0f;
  for (int first = kVector * (blockIdx.x * blockDim.x + threadIdx.x); first < n; first += kVector * (blockDim.x * gridDim.x)) {
    if (first + kVector <= n &&
        reinterpret_cast<size_t>(&values[first]) % 16 == 0) {
      alignas(16) float valuesPart[kVector];
      *reinterpret_cast<float4*>(valuesPart) = *reinterpret_cast<const float4*>(&values[first]);
      #pragma unroll
      for (int v = 0; v < kVector; ++v) {
        partial += valuesPart[v];
      }
    } else {
      for (int i = first; i < n && i < first + kVector; ++i) {
        partial += values[i];
      }
    }
  }
  // Lanes, then warps, then one atomic for the block.
  __shared__ float warpPartials[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 16; offset > 0; offset /= 2) partial += __shfl_down_sync(0xffffffff, partial, offset);
  if (lane == 0) warpPartials[warp] = partial;
  __syncthreads();
  if (warp == 0) {
    partial = lane < (blockDim.x + 31) / 32 ? warpPartials[lane] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) partial += __shfl_down_sync(0xffffffff, partial, offset);
    if (lane == 0) atomicAdd(result, partial);
  }
}
void run(const float* values, float* result, int n) {
  sum<<<((n + 255) / 256 + kItemsPerThread - 1) / kItemsPerThread, 256>>>(values, result, n);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.rewrite import reduce_before_atomic, widen_loop
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(reduce_before_atomic.REWRITE, widen_loop.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Add up within the block, with loads in vectors",
    answers=reduce_before_atomic.REWRITE.answers,
    chance=0.55,
    gain=8.0,
    ranges=reduce_before_atomic.REWRITE.ranges,
)
