# SPDX-License-Identifier: Apache-2.0
"""plain-arithmetic

Take the needless work out of a kernel's arithmetic, all of it at once.

Literals in `double` beside floats, powers with a constant exponent, divisions by what stays the same: each by itself
wins little where the next one bounds the kernel. Behind them neighbouring elements are loaded together.

```cuda
__global__ void gelu(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float x = in[i];
    out[i] = 0.5 * x * (1.0 + tanhf(0.7978845608 * (x + 0.044715 * powf(x, 3.0f))));
  }
}
void run(const float* in, float* out, int n) {
  gelu<<<(n + 255) / 256, 256>>>(in, out, n);
}
```

```cuda
constexpr int kVector = 4;  // elements of a thread, up to 16 bytes at a time

__global__ void gelu(const float* __restrict__ in, float* __restrict__ out, int n) {
  const int first = kVector * (blockIdx.x * blockDim.x + threadIdx.x);
  if (first + kVector <= n &&
      reinterpret_cast<size_t>(&out[first]) % 16 == 0 &&
      reinterpret_cast<size_t>(&in[first]) % 16 == 0) {
    alignas(16) float outPart[kVector];
    alignas(16) float inPart[kVector];
    *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&in[first]);
    #pragma unroll
    for (int v = 0; v < kVector; ++v) {
      float x = inPart[v];
      outPart[v] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * (x * x * x))));
    }
    *reinterpret_cast<float4*>(&out[first]) = *reinterpret_cast<float4*>(outPart);
  } else {
    for (int i = first; i < n && i < first + kVector; ++i) {
      float x = in[i];
      out[i] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * (x * x * x))));
    }
  }
}
void run(const float* in, float* out, int n) {
  gelu<<<((n + 255) / 256 + kVector - 1) / kVector, 256>>>(in, out, n);
}
```
"""

from __future__ import annotations

from warplens_tools.rewrite import (
    constant_power,
    divide_once,
    float_literals,
    reciprocal_root,
    widen_access,
    widen_loop,
)
from warplens_tools.rewrite.common.chains import Chain

_THEN = (
    constant_power.REWRITE,
    reciprocal_root.REWRITE,
    divide_once.REWRITE,
    (widen_access.REWRITE, widen_loop.REWRITE),
)

_CHAIN = Chain(float_literals.REWRITE, *_THEN)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Compute in the data's own precision, without powers and double literals",
    answers=float_literals.REWRITE.answers,
    useless_at="dram",
    chance=0.5,
    gain=4.0,
    spares=True,
)
