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

from warplens_tools.rewrite.base import REORDERED, Rewrite, RewriteResult, of_own_columns
from warplens_tools.rewrite.common.column_blocks import RANGES, ColumnBlocks
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import ColumnGroup
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.sharing import Sharer


@opening
def apply(found: Opened) -> RewriteResult:
    """Split the loops of every thread among the threads of a block that have its column."""
    blocks = ColumnBlocks(found)
    sharing = Sharer(found.reader, found.rows(), outermost=True).share()
    blocks.check_neighbours(work.loop.body for work in sharing.works)
    columns, parts, definitions = blocks.relaunch()
    writer = GroupEdits(found.edits, ColumnGroup(found.style, parts, columns))
    writer.write(sharing)
    writer.define_helpers(*definitions)
    edits = found.all_edits()
    return RewriteResult(edits, title="Split each column among a block's rows of threads", caveat=REORDERED)


REWRITE = Rewrite(
    slug="split-columns",
    title="Split each column among a block's rows of threads",
    apply=apply,
    answers=("grid-too-small", "low-ilp"),
    likely=of_own_columns,
    chance=0.5,
    gain=5.0,
    ranges=RANGES,
)
