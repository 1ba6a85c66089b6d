# SPDX-License-Identifier: Apache-2.0
"""count-in-vectors

Count into a histogram of the block's own, and load the data in vectors.

[private-histogram](private-histogram.md) and, behind it, [widen-loop](widen-loop.md) on the loop that it makes.

```cuda
__global__ void histogram(const unsigned char* data, unsigned int* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[data[i]], 1);
}
void run(const unsigned char* data, unsigned int* bins, int n) {
  histogram<<<(n + 255) / 256, 256>>>(data, bins, n);
}
```

```cuda
constexpr int kItemsPerThread = 32;

constexpr int kVector = 16;  // elements at a time, up to 16 bytes

__global__ void histogram(const unsigned char* __restrict__ data, unsigned int* __restrict__ bins, int n) {
  __shared__ unsigned int blockBins[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x) blockBins[b] = 0u;
  __syncthreads();
  for (int first = kVector * (blockIdx.x * blockDim.x + threadIdx.x); first < n; first += kVector * (blockDim.x * gridDim.x)) {
    if (first + kVector <= n &&
        reinterpret_cast<size_t>(&data[first]) % 16 == 0) {
      alignas(16) unsigned char dataPart[kVector];
      *reinterpret_cast<uint4*>(dataPart) = *reinterpret_cast<const uint4*>(&data[first]);
      #pragma unroll
      for (int v = 0; v < kVector; ++v) {
        atomicAdd(&blockBins[dataPart[v]], 1);
      }
    } else {
      for (int i = first; i < n && i < first + kVector; ++i) {
        atomicAdd(&blockBins[data[i]], 1);
      }
    }
  }
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x) {
    if (blockBins[b] != 0u) atomicAdd(&bins[b], blockBins[b]);
  }
}
void run(const unsigned char* data, unsigned int* bins, int n) {
  histogram<<<((n + 255) / 256 + kItemsPerThread - 1) / kItemsPerThread, 256>>>(data, bins, n);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.rewrite import private_histogram, widen_loop
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(private_histogram.REWRITE, widen_loop.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Count in shared memory first, with loads in vectors",
    answers=private_histogram.REWRITE.answers,
    chance=0.6,
    gain=12.0,
    ranges=private_histogram.REWRITE.ranges,
)
