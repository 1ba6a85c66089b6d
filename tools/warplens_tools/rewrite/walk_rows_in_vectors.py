# SPDX-License-Identifier: Apache-2.0
"""walk-rows-in-vectors

Walk rows one after the other, and load them in vectors.

[walk-by-rows](walk-by-rows.md), which needs no division for each element, and behind it
[warp-reduction](warp-reduction.md) where the block joins its sums by a tree, and [widen-loop](widen-loop.md).

```cuda
__global__ void channel_sum(const float* x, float* out, int images, int channels, int pixels) {
  __shared__ float sums[256];
  int c = blockIdx.x;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < images * pixels; i += blockDim.x) {
    int n = i / pixels, p = i % pixels;
    sum += x[(n * channels + c) * pixels + p];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) sums[threadIdx.x] += sums[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[c] = sums[0];
}
void run(const float* x, float* out, int images, int channels, int pixels) {
  channel_sum<<<channels, 256>>>(x, out, images, channels, pixels);
}
```

```cuda
constexpr int kVector = 4;  // elements at a time, up to 16 bytes

__global__ void channel_sum(const float* __restrict__ x, float* __restrict__ out, int images, int channels, int pixels) {
  __shared__ float sums[256];
  int c = blockIdx.x;
  float sum = 0.0f;
  for (int n = 0; n < images; ++n) {
    for (int first2 = kVector * threadIdx.x; first2 < pixels; first2 += kVector * blockDim.x) {
      if (first2 + kVector <= pixels &&
          reinterpret_cast<size_t>(&x[(n * channels + c) * pixels + first2]) % 16 == 0) {
        alignas(16) float xPart[kVector];
        *reinterpret_cast<float4*>(xPart) = *reinterpret_cast<const float4*>(&x[(n * channels + c) * pixels + first2]);
        #pragma unroll
        for (int v = 0; v < kVector; ++v) {
          sum += xPart[v];
        }
      } else {
        for (int p = first2; p < pixels && p < first2 + kVector; ++p) {
          sum += x[(n * channels + c) * pixels + p];
        }
      }
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  // Each warp by shuffles, then the first one what they came to.
  float value = sums[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x < 32) {
    value = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
    if (threadIdx.x == 0) sums[0] = value;
  }
  __syncthreads();
  if (threadIdx.x == 0) out[c] = sums[0];
}
void run(const float* x, float* out, int images, int channels, int pixels) {
  channel_sum<<<channels, 256>>>(x, out, images, channels, pixels);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.rewrite import walk_by_rows, warp_reduction, widen_loop
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(walk_by_rows.REWRITE, warp_reduction.REWRITE, widen_loop.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Walk rows one after the other in vectors",
    answers=("integer-division", "scalar-access", "barrier-tree"),
    chance=0.5,
    gain=2.0,
    ranges=widen_loop.REWRITE.ranges,
)
