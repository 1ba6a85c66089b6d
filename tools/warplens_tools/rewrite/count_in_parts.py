# SPDX-License-Identifier: Apache-2.0
"""count-in-parts

Count what each thread walks into a histogram of the block's own, and split its walk among several threads.

[split-columns](split-columns.md) and, behind it, [private-histogram](private-histogram.md): counted in shared memory,
the pairs of a particle with all others wait for few threads and not for memory any more.

```cuda
__device__ int bin_of(float a, float b) { return (int)(fabsf(a - b) * 8.0f); }
__global__ void distances(const float* x, unsigned* counts, int n, int bins) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float mine = x[i];
  for (int j = i + 1; j < n; ++j) {
    int bin = bin_of(mine, x[j]);
    if (bin < bins) atomicAdd(&counts[bin], 1u);
  }
}
void run(const float* x, unsigned* counts, int n, int bins) {
  distances<<<(n + 127) / 128, 128>>>(x, counts, n, bins);
}
```

```cuda
__device__ int bin_of(float a, float b) { return (int)(fabsf(a - b) * 8.0f); }

constexpr int kColumns = 32;

constexpr int kParts = 16;

__global__ void distances(const float* x, unsigned* counts, int n, int bins) {
  extern __shared__ unsigned blockCounts[];
  for (int b = threadIdx.y * blockDim.x + threadIdx.x; b < bins; b += blockDim.x * blockDim.y) blockCounts[b] = 0u;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    float mine = x[i];
    for (int j = i + 1 + threadIdx.y; j < n; j += kParts) {
      int bin = bin_of(mine, x[j]);
      if (bin < bins) atomicAdd(&blockCounts[bin], 1u);
    }
  }
  __syncthreads();
  for (int b = threadIdx.y * blockDim.x + threadIdx.x; b < bins; b += blockDim.x * blockDim.y) {
    if (blockCounts[b] != 0u) atomicAdd(&counts[b], blockCounts[b]);
  }
}
void run(const float* x, unsigned* counts, int n, int bins) {
  distances<<<(n + kColumns - 1) / kColumns, dim3(kColumns, kParts), bins * sizeof(unsigned)>>>(x, counts, n, bins);
}
```
"""

from __future__ import annotations

from warplens_tools.rewrite import private_histogram, split_columns
from warplens_tools.rewrite.base import of_own_columns
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(split_columns.REWRITE, private_histogram.REWRITE, restrict=False)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Count in shared memory first, with several threads for each walk",
    answers=(*private_histogram.REWRITE.answers, "grid-too-small"),
    chance=0.6,
    gain=16.0,
    likely=of_own_columns,
    ranges={**split_columns.REWRITE.ranges, **private_histogram.REWRITE.ranges},
)
