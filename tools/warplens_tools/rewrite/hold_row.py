# SPDX-License-Identifier: Apache-2.0
"""hold-row

Keep the elements of a row in registers between the passes over it.

Where a warp or a block walks a row several times, as softmax and layer norm do, every pass loads it again, from L2 or
from memory where there are more rows under way than a cache holds. A thread always takes the same elements: it loads
the first of them once, into a register array, and only what is beyond them again. So every length stays right; the
constant should be large enough for the rows there are, and small enough for the registers.

```cuda
__global__ void softmax(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  int lane = threadIdx.x % 32;
  float sum = 0.0f;
  for (int j = lane; j < cols; j += 32) {
    sum += expf(row[j]);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, offset);
  }
  for (int j = lane; j < cols; j += 32) {
    out[blockIdx.x * cols + j] = expf(row[j]) / sum;
  }
}
```

```cuda
constexpr int kHeld = 32;  // elements of a row that a thread keeps

__global__ void softmax(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  int lane = threadIdx.x % 32;
  float sum = 0.0f;
  float rowHeld[kHeld];
  #pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    int j = lane + h * 32;
    if (j < cols) {
      rowHeld[h] = row[j];
      sum += expf(rowHeld[h]);
    }
  }
  for (int j = lane + kHeld * 32; j < cols; j += 32) {
    sum += expf(row[j]);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, offset);
  }
  #pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    int j = lane + h * 32;
    if (j < cols) {
      out[blockIdx.x * cols + j] = expf(rowHeld[h]) / sum;
    }
  }
  for (int j = lane + kHeld * 32; j < cols; j += 32) {
    out[blockIdx.x * cols + j] = expf(row[j]) / sum;
  }
}
```

What one pass stores and the next reads is kept as well, and stored once where a later pass overwrites it. Left alone:
passes that are left early or in which threads wait for each other, an array that is accessed in another way between
them, whose address is taken, or that a launch passes twice, and elements that not every iteration accesses.
"""

from __future__ import annotations

from warplens_tools.cuda.facts.aliasing import same_buffer
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.held_rows import Row, kept_rows
from warplens_tools.rewrite.common.held_writer import HeldWriter
from warplens_tools.rewrite.common.passes import Group, read_groups
from warplens_tools.rewrite.common.reading import View, refusing
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

CAVEAT = "undefined results if two of the buffers overlap"
#: With 4 bytes each a quarter of the 32 registers of a thread at full occupancy: a row of 2048 for 256 threads. A warp
#: has fewer threads for a row, so each keeps more: half of them at half the occupancy, a row of 1024.
_HELD, _HELD_BY_WARP = 8, 32
_WARP = 32
_NOTHING_SHARED = "no pass reads again what one before it read or stored"


def _apply(view: View, target: Target) -> RewriteResult:
    style, edits, overlaps = Style(view), list[TextEdit](), False
    taken = same_buffer(view.file, view.model, view.kernel)
    held = counter = ""
    names = dict[str, str]()
    for group in read_groups(view, target.lines):
        rows = kept_rows(view, group, taken, target.names)
        if not rows:
            continue
        if not held:
            lanes = group.passes[0].stride.value
            count = _HELD_BY_WARP if lanes is not None and lanes <= _WARP else _HELD
            held = style.constant("kHeld", str(count), "elements of a row that a thread keeps")
            counter = style.local("h")
        overlaps = overlaps or may_overlap(view, group, rows)
        edits += HeldWriter(view, style, group, rows, held, counter, names).edits()
    if not edits:
        raise Refused(_NOTHING_SHARED)
    caveat = CAVEAT if overlaps else ""
    return RewriteResult(
        (style.constants(), *edits), title="Keep the row in registers between passes", caveat=caveat
    )


def may_overlap(view: View, group: Group, rows: tuple[Row, ...]) -> bool:
    """Whether nothing tells that what the passes store is not what is kept."""
    restricted = {p.name for p in view.kernel.parameters if p.restrict}
    return any(
        array != row.place.array and not {array, row.place.array} <= restricted
        for row in rows
        for array in group.stored
    )


REWRITE = Rewrite(
    slug="hold-row",
    title="Keep a row in registers between passes",
    apply=refusing(_apply),
    answers=("missing-cache-reuse",),
    useless_at="sm",
    chance=0.5,
    gain=1.4,
    ranges={"kHeld": (4, 8, 16, 32)},
    spares=True,
)
