# SPDX-License-Identifier: Apache-2.0
"""rows-in-vectors

Number the vectors of all rows one after another.

Where one number is divided into row and column, as where rows are looked up in a table or have a factor each, several
neighbours of a row can be accessed at a time, and one division is enough for all of them. Along two axes of the launch
([axes-in-vectors](axes-in-vectors.md)) most lanes have nothing to do where a row holds only a few vectors, and a grid
has at most 65535 blocks along `y`; one number for the vectors of all rows has neither limit.

```cuda
__global__ void get(const float* in, const int* id, float* out, int n, int dim) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * dim) return;
  int row = i / dim;
  int d = i % dim;
  out[i] = in[id[row] * dim + d];
}
void run(const float* in, const int* id, float* out, int n, int dim) {
  get<<<(n * dim + 255) / 256, 256>>>(in, id, out, n, dim);
}
```

```cuda
constexpr int kVector = 4;  // elements of a thread, up to 16 bytes at a time

__global__ void get(const float* __restrict__ in, const int* __restrict__ id, float* __restrict__ out, int n, int dim) {
  const int threads = (dim + kVector - 1) / kVector;  // of a row
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  int row = t / threads;
  if (row >= n) return;
  const int first = kVector * (t % threads);
  if (first + kVector <= dim &&
      reinterpret_cast<size_t>(&out[row * dim + first]) % 16 == 0 &&
      reinterpret_cast<size_t>(&in[id[row] * dim + first]) % 16 == 0) {
    alignas(16) float outPart[kVector];
    alignas(16) float inPart[kVector];
    *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&in[id[row] * dim + first]);
    #pragma unroll
    for (int v = 0; v < kVector; ++v) {
      int d = first + v;
      int i = row * dim + d;
      outPart[v] = inPart[v];
    }
    *reinterpret_cast<float4*>(&out[row * dim + first]) = *reinterpret_cast<float4*>(outPart);
  } else {
    for (int d = first; d < dim && d < first + kVector; ++d) {
      int i = row * dim + d;
      out[i] = in[id[row] * dim + d];
    }
  }
}
void run(const float* in, const int* id, float* out, int n, int dim) {
  get<<<(n * ((dim + kVector - 1) / kVector) + 255) / 256, 256>>>(in, id, out, n, dim);
}
```
"""

from __future__ import annotations

import msgspec

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.rewrite import index_into_axes, widen_access
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.rewrite.common.reading import View, refusing
from warplens_tools.text import SourceText


def _numbered(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """By axes, of which only z stays one of the launch's."""
    found = index_into_axes.REWRITE.apply(text, model, kernel, target)
    has_planes = any("blockIdx.z" in e.new_text for e in found.edits)
    return found if has_planes else msgspec.structs.replace(found, caveat="")


def _widened(view: View, target: Target) -> RewriteResult:
    return widen_access.widened(view, target, row_by_row=True)


_CHAIN = Chain(
    Rewrite(index_into_axes.REWRITE.slug, index_into_axes.REWRITE.title, _numbered),
    Rewrite(widen_access.REWRITE.slug, widen_access.REWRITE.title, refusing(_widened)),
)

REWRITE = _CHAIN.rewrite(
    __name__,
    "Number the vectors of all rows one after another",
    answers=("scalar-access", "integer-division"),
    chance=0.5,
    gain=2.0,
    ranges=widen_access.REWRITE.ranges,
)
