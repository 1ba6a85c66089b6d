# SPDX-License-Identifier: Apache-2.0
"""loop-into-threads

Let neighbouring threads take neighbouring iterations of the loop that each of them walked.

Where a thread walks along the lines of memory while its neighbours are lines apart, no access is shared. The loop
becomes the threads' `x`, and what they were numbered by before becomes `y` (and `y` becomes `z`): a warp then takes
32 neighbours of a line, and a block a tile of a few lines.

```cuda
__global__ void blur(const float* in, float* out, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  for (int c = 1; c < cols - 1; ++c) {
    out[r * cols + c] = (in[r * cols + c - 1] + in[r * cols + c] + in[r * cols + c + 1]) / 3;
  }
}

void launch(const float* in, float* out, int rows, int cols) {
  dim3 block(256);
  dim3 grid((rows + 255) / 256);
  blur<<<grid, block>>>(in, out, rows, cols);
}
```

```cuda
constexpr int kTileCols = 32;

constexpr int kTileRows = 8;

__global__ void blur(const float* in, float* out, int rows, int cols) {
  int r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r >= rows) return;
  for (int c = 1 + blockIdx.x * blockDim.x + threadIdx.x; c < cols - 1; c += blockDim.x * gridDim.x) {
    out[r * cols + c] = (in[r * cols + c - 1] + in[r * cols + c] + in[r * cols + c + 1]) / 3;
  }
}

void launch(const float* in, float* out, int rows, int cols) {
  dim3 block(kTileCols, kTileRows);
  dim3 grid((cols - 1 + kTileCols - 1) / kTileCols, (rows + kTileRows - 1) / kTileRows);
  blur<<<grid, block>>>(in, out, rows, cols);
}
```

Left alone: what [loop-into-grid](loop-into-grid.md) leaves alone, a loop along which accesses are no neighbours,
threads that use their numbers apart, and grids that use `z`. The grid's `y` holds at most 65535 blocks.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.values.loop_headers import initialised
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.counting import strided
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import WarpGroup
from warplens_tools.rewrite.common.kernel_reader import JOINED
from warplens_tools.rewrite.common.launches import AXES, Launch, times
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.outer_loops import count_told, outer_loop

#: A warp's worth of neighbours, and lines for a block of 256 threads.
_COLS, _ROWS = 32, 8


@opening
def apply(found: Opened) -> RewriteResult:
    """Make the first outer loop along which accesses are neighbours the threads' x."""
    joined = JOINED.search(found.reader.tree.code_of(found.reader.body))
    if joined:
        raise Refused(f"threads work together already ({joined[0]})")
    loop = outer_loop(found)
    if not found.reader.neighbours(loop):
        raise Refused("its accesses are no neighbours along the loop")
    axes = _axes(found)
    shifted = {axis.axis: AXES[AXES.index(axis.axis) + 1] for axis in axes}
    begin, update = strided(
        found.reader.tree, loop, "blockIdx.x * blockDim.x + threadIdx.x", "blockDim.x * gridDim.x"
    )
    _, first = initialised(loop.node)
    if first is None:
        raise Refused("its loop begins elsewhere")
    found.edits.replace(first, begin)
    found.edits.replace(loop.update, update)
    numbers = {axis.axis: _renumber(found, axis, shifted[axis.axis]) for axis in axes}
    cols, one = found.constant(_COLS, "tile", "cols")
    rows, two = found.constant(_ROWS, "tile", "rows")
    for launch in found.launches.read():
        along = f"({count_told(found, launch, loop, from_zero=True)} + {cols} - 1) / {cols}"
        extents = [along, *(_lines(found, launch, axis, numbers[axis.axis], rows) for axis in axes)]
        found.launches.set_whole(launch.grid, f"dim3({', '.join(extents)})")
        found.launches.set_whole(launch.block, f"dim3({cols}, {rows})")
    writer = GroupEdits(found.edits, WarpGroup(found.style, cols, "threadIdx.x"))
    writer.define_helpers(one, two)
    edits = found.all_edits()
    return RewriteResult(edits, title=f"Let neighbouring threads take the iterations over {loop.variable}")


def _axes(found: Opened) -> list[Numbering]:
    """The axes by which threads are numbered, x and perhaps y."""
    axes = [Numbering(found.reader, axis, found.launches.block_value(i)) for i, axis in enumerate(AXES)]
    if any((axes[2].threads, axes[2].blocks, axes[2].sizes, axes[2].grids)):
        raise Refused("its threads are numbered by three axes")
    if not axes[0].threads:
        raise Refused("its threads are not numbered by x")
    used = [axis for axis in axes[:2] if axis.threads or axis.blocks]
    if any(axis.grids for axis in used):
        raise Refused("its threads stride by the grid")
    return used


def _renumber(found: Opened, axis: Numbering, to: str) -> list[Node]:
    """Number by another axis; the expressions that were the number of a thread."""
    numbers = axis.only_numbered()
    if not numbers:
        raise Refused("its threads are not numbered by blocks")
    for node in numbers:
        found.edits.replace(node, f"blockIdx.{to} * blockDim.{to} + threadIdx.{to}")
    return numbers


def _lines(found: Opened, launch: Launch, axis: Numbering, numbers: list[Node], rows: str) -> str:
    """Blocks along an axis that was x or y: of a few lines each along the first, of one along the second."""
    index = AXES.index(axis.axis)
    every = found.count_of(launch, numbers) or times(launch.grid.axis(index), launch.block.axis(index))
    return f"({every} + {rows} - 1) / {rows}" if index == 0 else every


REWRITE = Rewrite(
    slug="loop-into-threads",
    title="Let neighbouring threads take neighbouring iterations",
    apply=apply,
    answers=("uncoalesced-global-read", "uncoalesced-global-write", "grid-too-small"),
    chance=0.5,
    gain=4.0,
    ranges={"kTileCols": (32, 64, 128), "kTileRows": (2, 4, 8)},
)
