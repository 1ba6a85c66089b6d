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

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.rewrite.base import Rewrite, RewriteResult, Target, along_one_axis
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import WarpGroup
from warplens_tools.rewrite.common.launches import times
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened
from warplens_tools.rewrite.common.refusal import Refused, refusing
from warplens_tools.rewrite.common.sharing import Sharer
from warplens_tools.text import SourceText

CAVEAT = "sums are added up in another order: results may differ in the last digits"
_WARP = 32


@refusing
def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Deal the loops of every thread out to 32 lanes."""
    del target
    found = Opened(text, model, kernel)
    numbering = Numbering(found.reader, "x", found.launches.block_value(0))
    numbering.check_whole()
    sharer = Sharer(found.reader, found.rows())
    sharing = sharer.share()
    sharer.check_neighbours()
    # where a block has rows of threads, parts of a warp would not be parts of one row of them
    words = ("lanes", "per", "row") if _is_flat(found) else ("warp", "size")
    width, definition = found.constant(_WARP, *words)
    if _launch(found, width):
        _number_by_block(found, numbering)
    else:
        _number_by_warp(found, numbering, width)
    lane = found.edits.fresh_here("lane")
    found.edits.before(found.first_statement(), f"const int {lane} = threadIdx.x % {width};")
    writer = GroupEdits(found.edits, WarpGroup(found.style, width, lane))
    writer.write(sharing)
    writer.define_helpers(definition)
    edits = (*found.edits.edits(), *found.launches.edits())
    return RewriteResult(edits, title="Give each row to a warp", caveat=CAVEAT if sharing.joins else "")


def _is_flat(found: Opened) -> bool:
    return found.launches.block_value(1) in (None, 1)


def _launch(found: Opened, width: str) -> bool:
    """Change the launches; whether a block is one row of warps then, so that its number is the thread's."""
    launches, flat = found.launches, _is_flat(found)
    size = launches.block_value(0)
    for launch in launches.read():
        if size == 1 and flat:
            launches.set(launch.block, {0: width})
        elif not flat:
            if (launches.block_value(1) or 0) * (launches.block_value(2) or 1) > _WARP:
                raise Refused("its blocks have too many rows of threads")
            launches.set(launch.grid, {0: times(launch.grid.axis(0), launch.block.axis(0))})
            launches.set(launch.block, {0: width})
        elif size is not None and size % _WARP:
            raise Refused("its blocks are no whole warps")
        else:
            launches.set(launch.grid, {0: times(launch.grid.axis(0), width)})
    return not flat


def _number_by_warp(found: Opened, numbering: Numbering, width: str) -> None:
    """`threadIdx.x / 32` for `threadIdx.x`, and the block's extent alike."""
    tree = found.reader.tree
    single = numbering.block == 1
    places = {n.id: n for n in (*numbering.threads, *numbering.sizes)}
    places |= {n.id: n for n in ([] if single else numbering.widths()) if not numbering.is_followed(n)}
    calls = numbering.called()
    if not single and not places and not calls:
        raise Refused("the kernel does not number its threads")
    alone = _are_alone(found, numbering)
    for node in calls:
        number = f"blockIdx.x * (blockDim.x / {width}) + threadIdx.x / {width}"
        found.edits.replace(node, found.in_product(node, number))
    for node in numbering.threads if alone else ():
        found.edits.replace(node, f"(blockIdx.x * (blockDim.x / {width}) + threadIdx.x / {width})")
        places.pop(node.id)
    for node in places.values():
        found.edits.replace(node, found.in_product(node, f"{tree.text_of(node)} / {width}"))


def _are_alone(found: Opened, numbering: Numbering) -> bool:
    """Whether threads are numbered by `threadIdx.x` alone, in one block.

    Raises:
        Refused: so they are, in several blocks.
    """
    if numbering.blocks or not numbering.threads or numbering.block == 1:
        return False
    if any(site.grid_value[0] != 1 for site in found.launches.sites):
        raise Refused("its blocks all do the same")
    return True


def _number_by_block(found: Opened, numbering: Numbering) -> None:
    """`blockIdx.x` for the number of a thread."""
    numbers = numbering.only_numbered()
    for node in numbers:
        found.edits.replace(node, "blockIdx.x")


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
