# SPDX-License-Identifier: Apache-2.0
"""swap-thread-axes

Let neighbouring threads take neighbouring elements: exchange the axes of the threads.

Threads with consecutive `threadIdx.x` make up a warp. Where `x` counts rows, a warp's accesses are a row apart, and
each takes a sector for itself; where it counts columns, they share their lines. All uses of the two axes in the kernel
and the extents of its launches are exchanged, so that every element is still computed by one thread.

```cuda
__global__ void add(const float* a, const float* b, float* out, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  int col = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && col < cols) {
    out[row * cols + col] = a[row * cols + col] + b[row * cols + col];
  }
}

void launch(const float* a, const float* b, float* out, int rows, int cols) {
  dim3 block(8, 32);
  dim3 grid((rows + 7) / 8, (cols + 31) / 32);
  add<<<grid, block>>>(a, b, out, rows, cols);
}
```

```cuda
__global__ void add(const float* a, const float* b, float* out, int rows, int cols) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows && col < cols) {
    out[row * cols + col] = a[row * cols + col] + b[row * cols + col];
  }
}

void launch(const float* a, const float* b, float* out, int rows, int cols) {
  dim3 block(32, 8);
  dim3 grid((cols + 31) / 32, (rows + 7) / 8);
  add<<<grid, block>>>(a, b, out, rows, cols);
}
```

Offered where more accesses go from element to element along another axis than along `x`; of as many, writes decide.
Left alone: a kernel whose lanes work together as warps, and one that is launched from another file. A grid that was
longer than 65535 along `x` cannot be launched after it.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult
from warplens_tools.rewrite.common.launches import AXES
from warplens_tools.rewrite.common.opened import Opened, opening

_BUILTINS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
_WARPS = ("__shfl", "__ballot", "__any_sync", "__all_sync", "__activemask", "__match", "__reduce", "warpSize", "wmma",
          "cooperative_groups", "asm")  # fmt: skip


@opening
def apply(found: Opened) -> RewriteResult:
    """Exchange `x` with the axis along which more accesses are neighbours."""
    code = found.reader.tree.code_of(found.reader.body)
    if any(word in code for word in _WARPS):
        raise Refused("lanes of a warp work together already")
    axis = _better(found)
    _swap_in_kernel(found, axis)
    index = AXES.index(axis)
    for launch in found.launches.read():
        size = launch.site.block_value
        square = size[0] is not None and size[0] == size[index]
        for extents in (launch.grid, *(() if square else (launch.block,))):
            found.launches.set(extents, {0: extents.axis(index), index: extents.axis(0)})
    edits = found.all_edits()
    return RewriteResult(edits, title=f"Exchange the axes x and {axis} of its threads")


def _better(found: Opened) -> str:
    """The axis along which accesses are neighbours more often than along x."""
    used = {"".join(found.reader.tree.code_of(n).split()) for n in walk(found.reader.body) if _is_member(n)}
    best, most = "", 0.0
    for axis in AXES[1:]:
        if f"threadIdx.{axis}" not in used:
            continue
        gain = sum(_gain(access, axis) for access in found.reader.accesses)
        if gain > most:
            best, most = axis, gain
    if not best:
        raise Refused("neighbouring threads take neighbouring elements already, or no other axis would")
    return best


def _gain(access: ArrayAccess, axis: str) -> float:
    """1 for an access that becomes one of neighbours, -1 for one that no longer is; writes count a little more."""
    if access.space not in ("global", "unknown") or access.traced is None:
        return 0.0
    along, across = (access.traced.coefficient(f"threadIdx.{a}") for a in ("x", axis))
    weight = 1.1 if access.writes else 1.0
    return weight * ((across in (1, -1)) - (along in (1, -1)))


def _is_member(node: Node) -> bool:
    return node.type == "field_expression"


def _swap_in_kernel(found: Opened, axis: str) -> None:
    tree = found.reader.tree
    other = {"x": axis, axis: "x"}
    for node in walk(found.reader.body):
        name, _, part = (
            "".join(tree.code_of(node).split()).partition(".") if _is_member(node) else ("", "", "")
        )
        if name in _BUILTINS and part in other:
            field = node.child_by_field_name("field")
            if field is not None:
                found.edits.replace(field, other[part])
        elif node.type == "identifier" and tree.code_of(node) in _BUILTINS and not _is_read_by_axis(node):
            raise Refused(f"{tree.code_of(node)} is used as a whole")


def _is_read_by_axis(node: Node) -> bool:
    return node.parent is not None and _is_member(node.parent)


REWRITE = Rewrite(
    slug="swap-thread-axes",
    title="Exchange the axes of the threads",
    apply=apply,
    answers=("uncoalesced-global-read", "uncoalesced-global-write"),
    chance=0.6,
    gain=4.0,
)
