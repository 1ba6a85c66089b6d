# SPDX-License-Identifier: Apache-2.0
"""vectors-before-tree

Let each thread join many elements in vectors before its block's tree, and make the tree one of warps.

[several-before-tree](several-before-tree.md), then [warp-reduction](warp-reduction.md) and
[widen-loop](widen-loop.md).

```cuda
__global__ void total(const float* in, float* out, int n) {
  __shared__ float sums[256];
  int t = threadIdx.x;
  int i = blockIdx.x * blockDim.x + t;
  sums[t] = (i < n) ? in[i] : 0.0f;
  __syncthreads();
  for (int s = 1; s < blockDim.x; s *= 2) {
    if (t % (2 * s) == 0) sums[t] += sums[t + s];
    __syncthreads();
  }
  if (t == 0) atomicAdd(out, sums[0]);
}

void run(const float* in, float* out, int n) {
  total<<<(n + 255) / 256, 256>>>(in, out, n);
}
```

```cuda
constexpr int kItemsPerThread = 16;

constexpr int kVector = 4;  // elements at a time, up to 16 bytes

__global__ void total(const float* __restrict__ in, float* __restrict__ out, int n) {
  __shared__ float sums[256];
  int t = threadIdx.x;
  float joined = 0.0f;
  for (int first2 = kVector * (blockIdx.x * blockDim.x + t); first2 < n; first2 += kVector * (blockDim.x * gridDim.x)) {
    if (first2 + kVector <= n &&
        reinterpret_cast<size_t>(&in[first2]) % 16 == 0) {
      alignas(16) float inPart[kVector];
      *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&in[first2]);
      #pragma unroll
      for (int v = 0; v < kVector; ++v) {
        joined += inPart[v];
      }
    } else {
      for (int i = first2; i < n && i < first2 + kVector; ++i) {
        joined += in[i];
      }
    }
  }
  sums[t] = joined;
  __syncthreads();
  // Each warp by shuffles, then the first one what they came to.
  float value = sums[t];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
  __syncthreads();
  if (t % 32 == 0) sums[t / 32] = value;
  __syncthreads();
  if (t < 32) {
    value = t < blockDim.x / 32 ? sums[t] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
    if (t == 0) sums[0] = value;
  }
  __syncthreads();
  if (t == 0) atomicAdd(out, sums[0]);
}

void run(const float* in, float* out, int n) {
  total<<<((n + 255) / 256 + kItemsPerThread - 1) / kItemsPerThread, 256>>>(in, out, n);
}
```
"""

from __future__ import annotations

from warplens_tools.rewrite import several_before_tree, warp_reduction, widen_loop
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(several_before_tree.REWRITE, warp_reduction.REWRITE, widen_loop.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Join many elements a thread in vectors before a tree of warps",
    answers=several_before_tree.REWRITE.answers,
    chance=0.6,
    gain=6.0,
    ranges=several_before_tree.REWRITE.ranges,
)
