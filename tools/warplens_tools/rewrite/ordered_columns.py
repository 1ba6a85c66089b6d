# SPDX-License-Identifier: Apache-2.0
"""ordered-columns

Number each axis by its own blocks and threads, then let each thread walk several neighbouring columns.

[axes-in-order](axes-in-order.md), so that a block may have several rows where it had one, or a part of one, and behind
it [columns-in-vectors](columns-in-vectors.md): lanes that have four columns each would have nothing to do in a block of
one short row.

```cuda
__global__ void bags(const float* table, const int* ids, const int* ends, float* out, int count, int dim) {
  int bag = blockIdx.x;
  int d = threadIdx.x;
  if (d >= dim || bag >= count) return;
  float sum = 0.0f;
  for (int p = ends[bag]; p < ends[bag + 1]; ++p) sum += table[ids[p] * dim + d];
  out[bag * dim + d] = sum;
}
void run(const float* table, const int* ids, const int* ends, float* out, int count, int dim) {
  bags<<<count, 64>>>(table, ids, ends, out, count, dim);
}
```

```cuda
constexpr int kVector = 4;  // columns of a thread, up to 16 bytes

__global__ void bags(const float* __restrict__ table, const int* __restrict__ ids, const int* __restrict__ ends, float* __restrict__ out, int count, int dim) {
  int bag = blockIdx.y * blockDim.y + threadIdx.y;
  if (bag >= count) return;
  const int d0 = kVector * (blockIdx.x * blockDim.x + threadIdx.x);
  if (d0 + kVector <= dim && dim % kVector == 0 && reinterpret_cast<size_t>(out) % 16 == 0 && reinterpret_cast<size_t>(table) % 16 == 0) {
    float sum[kVector] = {};
    for (int p = ends[bag]; p < ends[bag + 1]; ++p) {
      alignas(16) float tablePart[kVector];
      *reinterpret_cast<float4*>(tablePart) = *reinterpret_cast<const float4*>(&table[ids[p] * dim + d0]);
      #pragma unroll
      for (int o = 0; o < kVector; ++o) {
        int d = d0 + o;
        sum[o] += tablePart[o];
      }
    }
    alignas(16) float outPart[kVector];
    #pragma unroll
    for (int o = 0; o < kVector; ++o) {
      int d = d0 + o;
      outPart[o] = sum[o];
    }
    *reinterpret_cast<float4*>(&out[bag * dim + d0]) = *reinterpret_cast<const float4*>(outPart);
  } else {
    for (int d = d0; d < dim && d < d0 + kVector; ++d) {
      float sum = 0.0f;
      for (int p = ends[bag]; p < ends[bag + 1]; ++p) sum += table[ids[p] * dim + d];
      out[bag * dim + d] = sum;
    }
  }
}
void run(const float* table, const int* ids, const int* ends, float* out, int count, int dim) {
  bags<<<dim3(1, (count + kVector - 1) / kVector), dim3(64 / kVector, 1 * kVector)>>>(table, ids, ends, out, count, dim);
}
```
"""  # noqa: E501

from __future__ import annotations

from warplens_tools.rewrite import axes_in_order, columns_in_vectors
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(axes_in_order.REWRITE, columns_in_vectors.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Give a block several rows and each thread several neighbouring columns",
    answers=("scalar-access", "low-ilp", "element-gathers"),
    chance=0.5,
    gain=2.0,
    ranges=columns_in_vectors.REWRITE.ranges,
)
