# SPDX-License-Identifier: Apache-2.0
"""stencil-in-vectors

Let each thread work out neighbouring outputs of a stencil, and load what they share in vectors.

Outputs beside each other read almost the same elements of the rows around them: each thread of a stencil loads its
neighbours' elements again, one by one, with an address for each. A thread with four or eight outputs beside each other
loads each row once, as a vector and what sticks out at its ends, and stores a vector. Where something that it reads is
outside, it does as before.

```cuda
__global__ void smooth(const float* in, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int left = max(x - 1, 0), right = min(x + 1, width - 1);
  out[y * width + x] = 0.25f * in[y * width + left] + 0.5f * in[y * width + x] + 0.25f * in[y * width + right];
}
void run(const float* in, float* out, int width, int height) {
  dim3 block(32, 8), grid((width + 31) / 32, (height + 7) / 8);
  smooth<<<grid, block>>>(in, out, width, height);
}
```

```cuda
constexpr int kAcross = 4;  // of a thread

// `kCount` elements from `from` on, those from the `kLead`th in vectors where they are aligned.
template <int kLead, int kCount, typename T>
__device__ __forceinline__ void load_row(const T* from, T (&row)[kCount]) {
  constexpr int kWide = 16 / sizeof(T), kVectors = (kCount - kLead) / kWide;
  const T* centre = from + kLead;
  #pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i < kLead || i >= kLead + kVectors * kWide) row[i] = from[i];
  }
  if (reinterpret_cast<size_t>(centre) % 16 == 0) {
    #pragma unroll
    for (int q = 0; q < kVectors; ++q) {
      alignas(16) T part[kWide];
      *reinterpret_cast<uint4*>(part) = reinterpret_cast<const uint4*>(centre)[q];
      #pragma unroll
      for (int e = 0; e < kWide; ++e) row[kLead + q * kWide + e] = part[e];
    }
  } else {
    #pragma unroll
    for (int e = 0; e < kVectors * kWide; ++e) row[kLead + e] = centre[e];
  }
}

// All elements of a row, in vectors where they are aligned.
template <int kCount, typename T>
__device__ __forceinline__ void store_row(T* to, const T (&row)[kCount]) {
  constexpr int kWide = 16 / sizeof(T), kVectors = kCount / kWide;
  if (kCount % kWide == 0 && reinterpret_cast<size_t>(to) % 16 == 0) {
    #pragma unroll
    for (int q = 0; q < kVectors; ++q) {
      alignas(16) T part[kWide];
      #pragma unroll
      for (int e = 0; e < kWide; ++e) part[e] = row[q * kWide + e];
      reinterpret_cast<uint4*>(to)[q] = *reinterpret_cast<uint4*>(part);
    }
  } else {
    #pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = row[e];
  }
}

__global__ void smooth(const float* __restrict__ in, float* __restrict__ out, int width, int height) {
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  const int x0 = (blockIdx.x * blockDim.x + threadIdx.x) * kAcross;
  const bool inside = (x0 + (kAcross - 1)) < width &&
      y < height &&
      x0 - 1 >= 0 &&
      (x0 + (kAcross - 1)) + 1 <= width - 1;
  if (inside) {
    float in_row[kAcross + 2];
    float out_row[kAcross];
    {
      int x = x0;
      int left = x - 1;
      load_row<1>(&in[y * width + left], in_row);
    }
    #pragma unroll
    for (int o = 0; o < kAcross; ++o) {
      out_row[o] = 0.25f * in_row[o] + 0.5f * in_row[o + 1] + 0.25f * in_row[o + 2];
    }
    {
      int x = x0;
      store_row(&out[y * width + x], out_row);
    }
  } else {
    #pragma unroll
    for (int o = 0; o < kAcross; ++o) {
      int x = x0 + o;
      if (x >= width || y >= height) continue;
      int left = max(x - 1, 0), right = min(x + 1, width - 1);
      out[y * width + x] = 0.25f * in[y * width + left] + 0.5f * in[y * width + x] + 0.25f * in[y * width + right];
    }
  }
}
void run(const float* in, float* out, int width, int height) {
  dim3 block(32, 8), grid(((width + 31) / 32 + kAcross - 1) / kAcross, (height + 7) / 8);
  smooth<<<grid, block>>>(in, out, width, height);
}
```

Elements that short loops walk, as over a window, are brought in with the rows that these go through. Left alone: loops
of a run-time length, and arrays that are read and written.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite import index_into_axes, inside_without_tests
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.rewrite.common.declared import plainly_declared_in
from warplens_tools.rewrite.common.reading import View, field, refusing, unwrapped
from warplens_tools.rewrite.common.staged_writer import StagedRows
from warplens_tools.rewrite.march_outputs import marched
from warplens_tools.text import SourceText

_TITLE = "Work out neighbouring outputs of a stencil, with rows in vectors"


def _beside(view: View, target: Target) -> RewriteResult:
    """As many outputs along x as their smallest elements have in eight bytes, four at least."""
    del target
    elements = {view.element(e) for e in view.elements(view.body)}
    sizes = [type_bytes(view.concrete(e)) for e in sorted(elements)]
    known = [s for s in sizes if s in (1, 2, 4, 8)]
    if not known:
        raise Refused("it takes no arrays of numbers")
    outputs = min(max(8 // min(known), 4), 8) if min(known) < 8 else 2
    return marched(view, along="x", wanted="kAcross", outputs=outputs)


def _staged(view: View, target: Target) -> RewriteResult:
    """What the outputs that are inside share, before their loop."""
    del target
    loop = _inner(view)
    if loop is None:
        raise Refused("no outputs of a thread are known to be inside")
    return StagedRows(view, loop).result()


def _inner(view: View) -> Node | None:
    """The loop over outputs where all that they read is inside."""
    named = {
        d.name
        for n in walk(view.body)
        if n.type == "declaration"
        for d in plainly_declared_in(view, n)
        if d.type == "const bool"
    }
    for node in walk(view.body):
        if node.type != "if_statement" or view.code(unwrapped(field(node, "condition"))) not in named:
            continue
        return next((n for n in walk(field(node, "consequence")) if n.type == "for_statement"), None)
    return None


#: Rows are worth loading once only where all that is read is inside.
_INSIDE = Chain(
    inside_without_tests.REWRITE, Rewrite("staged-rows", _TITLE, refusing(_staged)), restrict=False
)


def _inside(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    return _INSIDE.result(_TITLE, text, model, kernel, target)


_CHAIN = Chain(Rewrite("march-beside", _TITLE, refusing(_beside)), Rewrite("rows-inside", _TITLE, _inside))


def _chained(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    return _CHAIN.result(_TITLE, text, model, kernel, target)


def _apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Of outputs along several axes, or of those that one number is divided into."""
    found = _chained(text, model, kernel, target)
    if found.edits:
        return found
    numbered = Chain(index_into_axes.REWRITE, Rewrite("stencil-in-vectors", _TITLE, _chained))
    after = numbered.result(_TITLE, text, model, kernel, target)
    return after if after.edits else found


REWRITE = Rewrite(
    slug="stencil-in-vectors",
    title=_TITLE,
    apply=_apply,
    answers=("scalar-access", "low-ilp", "missing-cache-reuse", "elements-read-again"),
    chance=0.5,
    gain=2.2,
    ranges={"kAcross": (2, 4, 8, 16)},
)
