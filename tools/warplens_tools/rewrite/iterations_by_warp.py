# SPDX-License-Identifier: Apache-2.0
"""iterations-by-warp

Give each iteration of a loop over a block's rows to a warp.

Where the threads of a block stride over rows, keys or records, and each walks its row by itself, the lanes of a warp
are a row apart at every step, and each load takes a line for one element. With a warp, or a part
of one, for each iteration the lanes walk one row side by side and join what they folded by shuffles.

```cuda
__global__ void scores(const float* query, const float* keys, float* out, int count, int dim) {
  extern __shared__ float dots[];
  const float* mine = query + blockIdx.x * dim;
  for (int t = threadIdx.x; t < count; t += blockDim.x) {
    float dot = 0.0f;
    for (int d = 0; d < dim; ++d) dot += mine[d] * keys[t * dim + d];
    dots[t] = dot;
  }
  __syncthreads();
  for (int t = threadIdx.x; t < count; t += blockDim.x) out[blockIdx.x * count + t] = dots[t] - dots[0];
}
void run(const float* query, const float* keys, float* out, int queries, int count, int dim) {
  scores<<<queries, 128, count * sizeof(float)>>>(query, keys, out, count, dim);
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

__global__ void scores(const float* query, const float* keys, float* out, int count, int dim) {
  const int lane = threadIdx.x % kLanesPerRow;
  extern __shared__ float dots[];
  const float* mine = query + blockIdx.x * dim;
  for (int t = threadIdx.x / kLanesPerRow; t < count; t += blockDim.x / kLanesPerRow) {
    float dot = 0.0f;
    for (int d = lane; d < dim; d += kLanesPerRow) dot += mine[d] * keys[t * dim + d];
    dot = lanes_sum(dot);
    if (lane == 0) dots[t] = dot;
    __syncwarp(0xffffffffu >> (32 - kLanesPerRow) << (threadIdx.x % 32 / kLanesPerRow * kLanesPerRow));
  }
  __syncthreads();
  for (int t = threadIdx.x; t < count; t += blockDim.x) out[blockIdx.x * count + t] = dots[t] - dots[0];
}
void run(const float* query, const float* keys, float* out, int queries, int count, int dim) {
  scores<<<queries, 128, count * sizeof(float)>>>(query, keys, out, count, dim);
}
```

A block whose threads have one row each, `int row = threadIdx.x; if (row >= n) return;`, is read as one whose threads
stride over rows, and gets 256 of them. Left alone: loops that the threads of a block do not stride over by their number
alone, those that fold into a variable from outside more than a maximum or a minimum, rows that neighbouring threads
walk side by side, and blocks that are no whole warps.
"""

from __future__ import annotations

import re

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult, of_own_rows
from warplens_tools.rewrite.common.block_rows import striding
from warplens_tools.rewrite.common.counting import Counting, counting
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import WarpGroup
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.reductions import IDEMPOTENT
from warplens_tools.rewrite.common.sharing import Sharer, Sharing
from warplens_tools.rewrite.common.uniform import is_uniform
from warplens_tools.rewrite.common.warp_rows import lanes_for

_WARP = 32
_NUMBERED = re.compile(r"\b(?:threadIdx|blockDim)\s*\.\s*[yz]\b")


@striding
@opening
def apply(found: Opened) -> RewriteResult:
    """Deal the inner loops of every such loop out to lanes."""
    tree, threads = found.reader.tree, found.launches.block_value(0)
    if (threads is not None and (threads % _WARP or threads == _WARP)) or found.launches.block_value(
        1
    ) not in (None, 1):
        raise Refused("its blocks are no row of several whole warps")
    if _NUMBERED.search(tree.code_of(found.reader.body)):
        raise Refused("its threads are numbered by more than one axis")
    why, done = "the threads of a block stride over no rows", list[tuple[Counting, Sharing]]()
    lengths = list[int | None]()
    for node in walk(found.reader.body):
        loop = counting(found.reader.expanded, node) if node.type == "for_statement" else None
        if loop is None or not _by_threads(found, loop):
            continue
        try:
            sharing, most = _shared(found, loop)
        except Refused as error:
            why = str(error)
            continue
        done.append((loop, sharing))
        lengths.append(most)
    if not done:
        raise Refused(why)
    width, definition = found.constant(
        lanes_for(None if None in lengths else max(n or 0 for n in lengths)), "lanes", "per", "row"
    )
    lane = found.edits.fresh_here("lane")
    found.edits.before(found.first_statement(), f"const int {lane} = threadIdx.x % {width};")
    writer = GroupEdits(found.edits, WarpGroup(found.style, width, lane))
    for loop, sharing in done:
        assert loop.first is not None
        found.edits.replace(loop.first, f"{tree.text_of(loop.first)} / {width}")
        found.edits.replace(loop.update, f"{loop.variable} += {loop.step} / {width}")
        writer.write(sharing)
    writer.define_helpers(definition)
    joins = any(sharing.joins for _, sharing in done)
    return RewriteResult(
        found.all_edits(), title="Give each iteration to a warp", caveat=REORDERED if joins else ""
    )


def _by_threads(found: Opened, loop: Counting) -> bool:
    """Whether a loop goes from the thread's number in its block by the number of the block's threads."""
    forms, threads = found.reader.forms, found.launches.block_value(0)
    first, step = forms.form(loop.first), forms.loop(loop.node).step
    if first is None or step is None or loop.downward or not loop.declared:
        return False
    names = [tuple(s.name for s in symbols) for symbols, factor in first.terms if factor == 1]
    whole = [tuple(s.name for s in symbols) for symbols, factor in step.terms if factor == 1]
    by_block = whole == [("blockDim.x",)] or (threads is not None and step.value == threads)
    return len(first.terms) == 1 and names == [("threadIdx.x",)] and len(step.terms) == 1 and by_block


def _shared(found: Opened, loop: Counting) -> tuple[Sharing, int | None]:
    """What has to change in the loop's body, and how long its rows are at most; None where nothing tells.

    Raises:
        Refused: not all threads of a warp come to it, or its iterations are none that a warp may take together.
    """
    reader = found.reader
    _check_reached(found, loop)
    work = reader.work(loop)
    if work.why_not or any(fold.operation not in IDEMPOTENT for fold in work.folds):
        raise Refused(work.why_not or "what its iterations fold would be folded by each lane")
    sharer = Sharer(reader, {loop.node.start_byte})
    sharing = sharer.share(loop.body)
    sharer.check_neighbours()
    if not any(reader.neighbours(one.loop) for one in sharing.works):
        raise Refused("no row is walked element by element")
    for join in sharing.joins:
        name = next(n for n in reader.names[join.fold.place.split(".")[0]] if n.id in join.fold.own)
        if not reader.is_inside(reader.binding(name), loop.node):
            raise Refused("a row is folded into a variable from outside")
    return sharing, sharer.longest()


def _check_reached(found: Opened, loop: Counting) -> None:
    """Raises `Refused` where some threads of a warp may not come to a loop."""
    body, outer = found.reader.body, loop.node.parent
    while outer is not None and outer.id != body.id:
        if outer.type != "compound_statement":
            raise Refused("the loop stands in a branch or a loop")
        outer = outer.parent
    for node in walk(body):
        if node.type != "return_statement" or node.start_byte > loop.node.start_byte:
            continue
        holder = node.parent
        while holder is not None and holder.type != "if_statement":
            holder = holder.parent if holder.id != body.id else None
        condition = holder.child_by_field_name("condition") if holder is not None else None
        if condition is None or not is_uniform(found.reader, condition):
            raise Refused("some threads leave before the loop")


REWRITE = Rewrite(
    slug="iterations-by-warp",
    title="Give each iteration to a warp",
    apply=apply,
    answers=("uncoalesced-global-read", "warp-divergence"),
    likely=of_own_rows,
    chance=0.6,
    gain=4.0,
    ranges={"kLanesPerRow": (4, 8, 16, 32)},
)
