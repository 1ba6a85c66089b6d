# SPDX-License-Identifier: Apache-2.0
"""table-in-vectors

Look several values up at a time, in shared memory.

[widen-access](widen-access.md), so that what is looked up comes in vectors, and behind it
[table-in-shared](table-in-shared.md).

```cuda
__constant__ unsigned char table[256];

__global__ void map(const unsigned char* in, unsigned char* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = table[in[i]];
}
void run(const unsigned char* in, unsigned char* out, int n) {
  map<<<(n + 255) / 256, 256>>>(in, out, n);
}
```

```cuda
__constant__ unsigned char table[256];

constexpr int kVector = 16;  // elements of a thread, up to 16 bytes at a time

__global__ void map(const unsigned char* __restrict__ in, unsigned char* __restrict__ out, int n) {
  __shared__ unsigned char shared_table[256];
  for (int t = threadIdx.x; t < 256; t += blockDim.x) shared_table[t] = table[t];
  __syncthreads();
  const int first = kVector * (blockIdx.x * blockDim.x + threadIdx.x);
  if (first + kVector <= n &&
      reinterpret_cast<size_t>(&out[first]) % 16 == 0 &&
      reinterpret_cast<size_t>(&in[first]) % 16 == 0) {
    alignas(16) unsigned char outPart[kVector];
    alignas(16) unsigned char inPart[kVector];
    *reinterpret_cast<uint4*>(inPart) = *reinterpret_cast<const uint4*>(&in[first]);
    #pragma unroll
    for (int v = 0; v < kVector; ++v) {
      outPart[v] = shared_table[inPart[v]];
    }
    *reinterpret_cast<uint4*>(&out[first]) = *reinterpret_cast<uint4*>(outPart);
  } else {
    for (int i = first; i < n && i < first + kVector; ++i) {
      out[i] = shared_table[in[i]];
    }
  }
}
void run(const unsigned char* in, unsigned char* out, int n) {
  map<<<((n + 255) / 256 + kVector - 1) / kVector, 256>>>(in, out, n);
}
```
"""

from __future__ import annotations

from warplens_tools.rewrite import table_in_shared, widen_access
from warplens_tools.rewrite.common.chains import Chain

_CHAIN = Chain(widen_access.REWRITE, table_in_shared.REWRITE)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Look values up in shared memory, several at a time",
    chance=0.6,
    gain=5.0,
)
