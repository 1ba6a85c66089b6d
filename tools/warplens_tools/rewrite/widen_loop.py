# SPDX-License-Identifier: Apache-2.0
"""widen-loop

Let the threads that walk data together take several neighbouring elements at a time, 8 or 16 bytes in one load.

Threads that stride over a row or over the grid's data load one element an iteration: 2 bytes of half, 4 of float.
With vectors the loop has a quarter or an eighth of the iterations and loads, and each keeps as much more on the way.
What does not fill a vector, or is not aligned, is done one by one.

```cuda
__global__ void row_sums(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) {
    sum += row[j];
  }
  atomicAdd(&out[blockIdx.x], sum);
}
```

```cuda
constexpr int kVector = 4;  // elements at a time, up to 16 bytes

__global__ void row_sums(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  float sum = 0.0f;
  for (int first = kVector * threadIdx.x; first < cols; first += kVector * blockDim.x) {
    if (first + kVector <= cols &&
        reinterpret_cast<size_t>(&row[first]) % 16 == 0) {
      alignas(16) float inPart[kVector];
      *reinterpret_cast<float4*>(inPart) = *reinterpret_cast<const float4*>(&row[first]);
      #pragma unroll
      for (int v = 0; v < kVector; ++v) {
        sum += inPart[v];
      }
    } else {
      for (int j = first; j < cols && j < first + kVector; ++j) {
        sum += row[j];
      }
    }
  }
  atomicAdd(&out[blockIdx.x], sum);
}
```

It takes loops that begin at the thread's number, or the grid's, and step by that of all threads. Left alone: loops
that store to an array under a condition, that are left early, or in which threads wait for each other, and those over
the grid's data of which each block keeps its own part, `partial[blockIdx.x]`.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    refusing,
    stores,
)
from warplens_tools.rewrite.common.strided_work import strided_arrays
from warplens_tools.rewrite.common.vectors import CAVEAT, Array, Work
from warplens_tools.rewrite.common.widened import widened

_SUMS = "; sums are added up in another order"


def _apply(view: View, target: Target) -> RewriteResult:
    found = widened(view, target, _read, "no loop strides over data by the number of its threads")
    sums = any(
        name not in {a.name for a in arrays}
        for loop, arrays in found.loops
        for name, _ in assigned(loop, view)
    )
    return RewriteResult(
        found.edits, title="Walk the data in vectors", caveat=CAVEAT + (_SUMS if sums else "")
    )


def _read(view: View, loop: Node) -> tuple[Work, tuple[Array, ...]]:
    """As `strided_arrays`, of a loop whose elements may be other threads' as well.

    Raises:
        Refused: so does that; each block keeps what its own elements come to, as partial sums.
    """
    step = view.forms.loop(loop).step
    if step is not None and any(s.kind == "grid size" for s in step.symbols):
        for place in (e for e in stores(view, view.body) if e.start_byte >= loop.end_byte):
            where = view.place(place)
            form = where.traced if where is not None and where.space == "global" else None
            if form is not None and form.coefficient("blockIdx.x") and not form.coefficient("threadIdx.x"):
                raise Refused("each block keeps what its own elements come to")
    return strided_arrays(view, loop)


REWRITE = Rewrite(
    slug="widen-loop",
    title="Walk data in vectors of 8 or 16 bytes",
    apply=refusing(_apply),
    answers=("scalar-access",),
    useless_at="sm",
    chance=0.5,
    gain=1.5,
    spares=True,
)
