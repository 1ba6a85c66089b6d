# SPDX-License-Identifier: Apache-2.0
"""split-columns

Let several threads share the loop of one column.

Where each thread walks down a column, its accesses are neighbours of those of the next thread, as they should be, but
there are no more threads than columns. A block of two dimensions keeps 32 neighbouring columns along `x` and splits
their rows along `y`; what its threads fold is joined through shared memory.

```cuda
__global__ void column_sums(const float* in, float* out, int rows, int cols) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  float sum = 0.0f;
  for (int i = 0; i < rows; ++i) {
    sum += in[i * cols + col];
  }
  out[col] = sum;
}

void launch(const float* in, float* out, int rows, int cols) {
  column_sums<<<(cols + 255) / 256, 256>>>(in, out, rows, cols);
}
```

```cuda
constexpr int kColumns = 32;

constexpr int kParts = 16;

__device__ float column_sum(float value) {
  __shared__ float partial[kParts][kColumns];
  partial[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  value = partial[0][threadIdx.x];
  for (int part = 1; part < kParts; ++part) {
    value += partial[part][threadIdx.x];
  }
  __syncthreads();
  return value;
}

__global__ void column_sums(const float* in, float* out, int rows, int cols) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= cols) return;
  float sum = 0.0f;
  for (int i = threadIdx.y; i < rows; i += kParts) {
    sum += in[i * cols + col];
  }
  sum = column_sum(sum);
  if (threadIdx.y == 0) out[col] = sum;
}

void launch(const float* in, float* out, int rows, int cols) {
  column_sums<<<(cols + kColumns - 1) / kColumns, dim3(kColumns, kParts)>>>(in, out, rows, cols);
}
```

Threads beyond the last column leave before the others meet, or wait nowhere: a barrier waits for those that are
still there. Left alone: what [warp-per-row](warp-per-row.md) leaves alone, a kernel whose accesses are not neighbours
along `x`, and one that uses `threadIdx.y` already.
"""

from __future__ import annotations

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import ColumnGroup
from warplens_tools.rewrite.common.launches import Launch, times
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened
from warplens_tools.rewrite.common.refusal import Refused, refusing
from warplens_tools.rewrite.common.sharing import Sharer, Sharing
from warplens_tools.text import SourceText

CAVEAT = "sums are added up in another order: results may differ in the last digits"
#: A warp's worth of neighbours, and half a block of 1024 threads.
_COLUMNS, _PARTS = 32, 16


@refusing
def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Split the loops of every thread among the threads of a block that have its column."""
    del target
    found = Opened(text, model, kernel)
    if any(found.launches.block_value(axis) not in (None, 1) for axis in (1, 2)):
        raise Refused("its blocks have more than one dimension already")
    for axis in "yz":
        used = Numbering(found.reader, axis, None)
        if used.threads or used.sizes:
            raise Refused("its threads are numbered by more than one axis")
    numbering = Numbering(found.reader, "x", found.launches.block_value(0))
    numbering.check_whole()
    widths = numbering.widths()
    sharing = Sharer(found.reader, found.rows(), outermost=True).share()
    _check_neighbours(found, sharing)
    columns, first = found.constant(_COLUMNS, "columns")
    parts, second = found.constant(_PARTS, "parts")
    for node in widths:
        if "".join(found.reader.tree.code_of(node).split()) != "blockDim.x" and not numbering.is_followed(
            node
        ):
            found.edits.replace(node, columns)
    for launch in found.launches.read():
        found.launches.set(launch.grid, {0: _grid(found, launch, numbering, columns)})
        found.launches.set_whole(launch.block, f"dim3({columns}, {parts})")
    writer = GroupEdits(found.edits, ColumnGroup(found.style, parts, columns))
    writer.write(sharing)
    writer.define_helpers(first, second)
    edits = (*found.edits.edits(), *found.launches.edits())
    return RewriteResult(edits, title="Split each column among a block's rows of threads", caveat=CAVEAT)


def _check_neighbours(found: Opened, sharing: Sharing) -> None:
    """Raises `Refused` where the dealt-out loops do not walk down columns that are neighbours."""
    bodies = [found.reader.tree.span(work.loop.body) for work in sharing.works]
    along = [
        access.traced.coefficient("threadIdx.x") in (1, -1)
        for access in found.reader.accesses
        if access.traced is not None and any(body.contains(access.span) for body in bodies)
    ]
    if not any(along):
        raise Refused("its loop does not walk down columns that are neighbours")


def _grid(found: Opened, launch: Launch, numbering: Numbering, columns: str) -> str:
    """One block for every 32 columns."""
    count = found.count_of(launch, numbering.numbered())
    if count:
        return f"({count} + {columns} - 1) / {columns}"
    every = times(launch.grid.axis(0), launch.block.axis(0))
    return f"({every} + {columns} - 1) / {columns}"


REWRITE = Rewrite(
    slug="split-columns",
    title="Split each column among a block's rows of threads",
    apply=apply,
    answers=("grid-too-small", "low-ilp"),
    chance=0.5,
    gain=5.0,
    ranges={"kColumns": (8, 16, 32), "kParts": (8, 16, 32, 64, 128)},
)
