# SPDX-License-Identifier: Apache-2.0
"""block-per-row

Give the row that one thread walks to a block.

As [warp-per-row](warp-per-row.md), for long rows and few of them: all threads of a block walk one row together, fold
by shuffles within their warps and through shared memory between these. The launch has one block for each row.

```cuda
__global__ void row_sums(const float* in, float* out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    float sum = 0.0f;
    for (int j = 0; j < cols; ++j) sum += in[row * cols + j];
    out[row] = sum;
  }
}

void launch(const float* in, float* out, int rows, int cols) {
  row_sums<<<(rows + 255) / 256, 256>>>(in, out, rows, cols);
}
```

```cuda
__device__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, offset);
  }
  return value;
}

__device__ float block_sum(float value) {
  __shared__ float partial[32];
  const int warps = (blockDim.x + 31) / 32;
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = warp_sum(threadIdx.x % 32 < warps ? partial[threadIdx.x % 32] : 0.0f);
  __syncthreads();
  return value;
}

__global__ void row_sums(const float* in, float* out, int rows, int cols) {
  int row = blockIdx.x;
  if (row < rows) {
    float sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) sum += in[row * cols + j];
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[row] = sum;
  }
}

void launch(const float* in, float* out, int rows, int cols) {
  row_sums<<<rows, 256>>>(in, out, rows, cols);
}
```

Left alone: what warp-per-row leaves alone, and a kernel that uses the numbers of its blocks and threads apart.
A block of less than two warps, or of two dimensions, becomes one of 128 threads.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, of_long_rows
from warplens_tools.rewrite.common.collapsed import collapsing
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import BlockGroup
from warplens_tools.rewrite.common.launches import Launch, times
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.sharing import Sharer

_WARP, _SMALLEST, _THREADS = 32, 64, 128


@collapsing
@opening
def apply(found: Opened) -> RewriteResult:
    """Deal the loops of every thread out to a block of its own."""
    axes = [Numbering(found.reader, axis, found.launches.block_value(i)) for i, axis in enumerate("xy")]
    if axes[0].block != 1 and not axes[0].numbered():
        raise Refused("the kernel does not number its threads")
    axes = [axis for axis in axes if axis.threads or axis.sizes or axis.called()]
    sharer = Sharer(found.reader, found.rows(), least=_SMALLEST)
    sharing = sharer.share()
    sharer.check_neighbours()
    numbers = {axis.axis: number_blocks(found, axis) for axis in axes}
    definition = launch_rows(found, numbers)
    writer = GroupEdits(found.edits, BlockGroup(found.style, "blockDim.x", lane_of(axes)))
    writer.write(sharing)
    writer.define_helpers(definition)
    edits = found.all_edits()
    return RewriteResult(edits, title="Give each row to a block", caveat=REORDERED if sharing.joins else "")


def lane_of(axes: list[Numbering]) -> str:
    """The name that the kernel has for `threadIdx.x` everywhere, or that."""
    names = {axis.alias(node) for axis in axes if axis.axis == "x" for node in axis.threads}
    return next(iter(names), "") or "threadIdx.x" if len(names) == 1 else "threadIdx.x"


def number_blocks(found: Opened, axis: Numbering) -> list[Node]:
    """Write `blockIdx.x` for the number of a thread; the expressions that were it."""
    strides = axis.strides()
    numbers = axis.only_numbered()
    for node in numbers:
        found.edits.replace(node, f"blockIdx.{axis.axis}")
    for node in strides:
        found.edits.replace(node, f"gridDim.{axis.axis}")
    return numbers


def launch_rows(found: Opened, numbers: dict[str, list[Node]]) -> str:
    """Change the launches; the definition of a constant that they need, "" for none."""
    launches = found.launches
    size, flat = launches.block_value(0), all(launches.block_value(i) in (None, 1) for i in (1, 2))
    if size is not None and size % _WARP and size > _SMALLEST and flat:
        raise Refused("its blocks are no whole warps")
    name = definition = ""
    if not flat or (size is not None and size < _SMALLEST):
        name, definition = found.constant(_THREADS, "threads", "per", "row")
    for launch in launches.read():
        launches.set(launch.grid, _grid(found, launch, numbers))
        if name:
            launches.set_whole(launch.block, name)
    return definition


def _grid(found: Opened, launch: Launch, numbers: dict[str, list[Node]]) -> dict[int, str]:
    """One block for every thread that there was: as many as there are rows where the launch says so."""
    every = {}
    for index, axis in enumerate("xy"):
        block = launch.block.axis(index)
        if block == "1" or (index and axis not in numbers):
            continue
        count = found.count_of(launch, numbers.get(axis, []))
        every[index] = count or times(launch.grid.axis(index), block)
    return every


REWRITE = Rewrite(
    slug="block-per-row",
    title="Give each row to a block",
    apply=apply,
    answers=("uncoalesced-global-read", "uncoalesced-global-write", "grid-too-small", "warp-divergence"),
    likely=of_long_rows,
    chance=0.45,
    gain=4.0,
    ranges={"kThreadsPerRow": (64, 128, 256, 512, 1024)},
)
