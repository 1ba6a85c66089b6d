# SPDX-License-Identifier: Apache-2.0
"""share-uniform-loops

Share the loops that every thread of a block runs alike.

Where each thread of a block works out the mean or the maximum of the row that they all have, a block of 256 reads the
row and adds it up 256 times. Each thread takes every 256th element instead, and the threads join what they found.

```cuda
__global__ void center(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  float sum = 0.0f;
  for (int j = 0; j < cols; ++j) sum += row[j];
  for (int j = threadIdx.x; j < cols; j += blockDim.x) out[blockIdx.x * cols + j] = row[j] - sum / cols;
}
void run(const float* in, float* out, int rows, int cols) { center<<<rows, 256>>>(in, out, cols); }
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

__global__ void center(const float* in, float* out, int cols) {
  const float* row = in + blockIdx.x * cols;
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) sum += row[j];
  sum = block_sum(sum);
  for (int j = threadIdx.x; j < cols; j += blockDim.x) out[blockIdx.x * cols + j] = row[j] - sum / cols;
}
void run(const float* in, float* out, int rows, int cols) { center<<<rows, 256>>>(in, out, cols); }
```

Left alone: loops that rest on the thread's number, that write memory, or to which not all threads of a block come, and
blocks that are no whole warps of one dimension.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.rewrite.base import REORDERED, Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.counting import LOOPS, counting
from warplens_tools.rewrite.common.group_edits import GroupEdits
from warplens_tools.rewrite.common.groups import BlockGroup
from warplens_tools.rewrite.common.opened import Opened, opening
from warplens_tools.rewrite.common.sharing import Sharer
from warplens_tools.rewrite.common.uniform import VaryingNames, why_not_all

_WARP, _FEW = 32, 64


@opening
def apply(found: Opened) -> RewriteResult:
    """Deal out every loop that the threads of a block run alike."""
    size = found.launches.block_value(0)
    if (
        size is None
        or size % _WARP
        or size < _FEW
        or any(found.launches.block_value(a) not in (None, 1) for a in (1, 2))
    ):
        raise Refused("its blocks are no whole warps of one dimension")
    found.launches.read()
    code = found.reader.tree.code_of(found.reader.body)
    if "threadIdx" not in code or "blockIdx" not in code:
        raise Refused("no loop is run by all threads of a block alike")
    writer = GroupEdits(found.edits, BlockGroup(found.style, "blockDim.x", "threadIdx.x"))
    done, reason = 0, ""
    for loop in _alike(found):
        try:
            why = why_not_all(found.reader, loop)
            if why:
                raise Refused(why)
            sharing = Sharer(found.reader, found.rows()).share(loop)
            if not sharing.joins or sharing.guarded or any(True for _ in found.reader.stores(loop)):
                raise Refused("a loop does more than to fold")
        except Refused as error:
            reason = reason or str(error)
            continue
        writer.write(sharing)
        done += 1
    if not done:
        raise Refused(reason or "no loop is run by all threads of a block alike")
    writer.define_helpers()
    title = "Share the loops that every thread of a block runs alike"
    return RewriteResult(found.edits.edits(), title=title, caveat=REORDERED)


def _alike(found: Opened) -> Iterator[Node]:
    """The outermost loops in which nothing rests on the thread, and that go by something else than the grid."""
    rows, taken = found.rows(), list[Node]()
    for node in walk(found.reader.body):
        if node.type not in LOOPS or node.start_byte in rows or any(holds(t, node) for t in taken):
            continue
        if counting(found.reader.expanded, node) is None or _rests(found, node):
            continue
        taken.append(node)
        yield node


def _rests(found: Opened, loop: Node) -> bool:
    """Whether a loop has to do with a value that differs from thread to thread."""
    reader = found.reader
    around = next(
        (n for n in walk(reader.body) if n.type in LOOPS and n.id != loop.id and holds(n, loop)), None
    )
    return VaryingNames(reader, (around if around is not None else loop).end_byte, loop).among(loop)


REWRITE = Rewrite(
    slug="share-uniform-loops",
    title="Share the loops that every thread of a block runs alike",
    apply=apply,
    answers=("missing-cache-reuse", "low-ilp"),
    chance=0.6,
    gain=6.0,
)
