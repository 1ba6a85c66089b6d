# SPDX-License-Identifier: Apache-2.0
"""warp-per-row

Give the row that one thread walks to a warp.

Where every thread walks a row of its own, the lanes of a warp are a row apart at every step: each load takes a
sector for one element. Lanes that walk one row together read it in whole lines, and there are 32 times as many
threads to hide latency with. Sums, extremes and products are joined by shuffles, single values are written by one
lane, and the launch has 32 times as many blocks. Short rows may do with 4, 8 or 16 lanes: the constant says how many.

```cuda
__global__ void softmax(const float* in, float* out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int j = 0; j < cols; ++j) {
    sum += expf(in[row * cols + j]);
  }
  for (int j = 0; j < cols; ++j) {
    out[row * cols + j] = expf(in[row * cols + j]) / sum;
  }
}

void launch(const float* in, float* out, int rows, int cols) {
  softmax<<<(rows + 255) / 256, 256>>>(in, out, rows, cols);
}
```

```cuda
constexpr int kLanesPerRow = 32;

__device__ float lanes_sum(float value) {
  const unsigned mask = 0xffffffffu >> (32 - kLanesPerRow) << (threadIdx.x % 32 / kLanesPerRow * kLanesPerRow);
  for (int offset = kLanesPerRow / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(mask, value, offset);
  }
  return value;
}

__global__ void softmax(const float* in, float* out, int rows, int cols) {
  const int lane = threadIdx.x % kLanesPerRow;
  int row = blockIdx.x * (blockDim.x / kLanesPerRow) + threadIdx.x / kLanesPerRow;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int j = lane; j < cols; j += kLanesPerRow) {
    sum += expf(in[row * cols + j]);
  }
  sum = lanes_sum(sum);
  for (int j = lane; j < cols; j += kLanesPerRow) {
    out[row * cols + j] = expf(in[row * cols + j]) / sum;
  }
}

void launch(const float* in, float* out, int rows, int cols) {
  softmax<<<(rows + 255) / 256 * kLanesPerRow, 256>>>(in, out, rows, cols);
}
```

A loop is dealt out where its iterations are independent but for what they fold into. Left alone: a kernel whose
threads work together already, one whose blocks are told apart by more than the number of their threads, one that is
launched from another file, and a loop that an iteration may end.
Blocks are taken to be whole warps where the text does not tell.
"""

from __future__ import annotations

from warplens_tools.rewrite.base import REORDERED, Rewrite, RewriteResult, along_one_axis
from warplens_tools.rewrite.common.collapsed import collapsing
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import WarpGroup
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.sharing import Sharer
from warplens_tools.rewrite.common.warp_rows import lanes_for, number_by_warps


@collapsing
@opening
def apply(found: Opened) -> RewriteResult:
    """Deal the loops of every thread out to 32 lanes."""
    numbering = Numbering(found.reader, "x", found.launches.block_value(0))
    numbering.check_whole()
    sharer = Sharer(found.reader, found.rows())
    sharing = sharer.share()
    sharer.check_neighbours()
    rows = number_by_warps(found, numbering, lanes_for(sharer.longest()))
    writer = GroupEdits(found.edits, WarpGroup(found.style, rows.width, rows.lane))
    writer.write(sharing)
    writer.define_helpers(rows.definition)
    edits = found.all_edits()
    return RewriteResult(edits, title="Give each row to a warp", caveat=REORDERED if sharing.joins else "")


REWRITE = Rewrite(
    slug="warp-per-row",
    title="Give each row to a warp",
    apply=apply,
    answers=("uncoalesced-global-read", "uncoalesced-global-write", "grid-too-small", "warp-divergence"),
    likely=along_one_axis,
    chance=0.6,
    gain=5.0,
    ranges={"kLanesPerRow": (4, 8, 16, 32), "kWarpSize": ()},
)
