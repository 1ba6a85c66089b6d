# SPDX-License-Identifier: Apache-2.0
"""stride-into-grid

Give the outputs that a block strides over to blocks of their own.

A block that has a row, and whose threads stride over its outputs, each a loop of its own, shares nothing of what other
rows read: rows of outputs are no patch. With the outputs' columns along one axis of the grid and the rows along
another, blocks may have any patch, and whatever makes use of that, as the tiles of a product, can follow. Rows of which
a run may have any number stay along `x`, which alone holds more than 65535 blocks.

```cuda
__global__ void linear(const float* x, const float* w, float* y, int outputs, int depth) {
  int row = blockIdx.x;
  for (int col = threadIdx.x; col < outputs; col += blockDim.x) {
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum += x[row * depth + k] * w[k * outputs + col];
    y[row * outputs + col] = sum;
  }
}
void run(const float* x, const float* w, float* y, int rows, int outputs, int depth) {
  linear<<<rows, 256>>>(x, w, y, outputs, depth);
}
```

```cuda
__global__ void linear(const float* x, const float* w, float* y, int outputs, int depth) {
  int row = blockIdx.x;
  int col = blockIdx.y * blockDim.x + threadIdx.x;
  if (col < outputs) {
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum += x[row * depth + k] * w[k * outputs + col];
    y[row * outputs + col] = sum;
  }
}
void run(const float* x, const float* w, float* y, int rows, int outputs, int depth) {
  linear<<<dim3(rows, (outputs + 256 - 1) / 256), 256>>>(x, w, y, outputs, depth);
}
```

Left alone: outputs that take no loop, one that reads what another writes, threads that work together, launches that use
the grid's `z`, and what comes before or behind the loop but declarations and conditions.
"""

from __future__ import annotations

import re

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.block_strides import check_apart, strided_by_block
from warplens_tools.rewrite.common.counting import Counting
from warplens_tools.rewrite.common.launches import AXES, Launch, Launches, rounded_up
from warplens_tools.rewrite.common.reading import View, field, refusing, shares_memory, unwrapped
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.text import Span, TextEdit

_CAVEAT = (
    "y and z of a grid hold at most 65535 blocks: more rows or problems than that are not computed at all"
)
_BLOCK = re.compile(r"\bblockIdx\s*\.\s*([xy])\b")


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if shares_memory(view):
        raise Refused("the threads of a block work together")
    launches = Launches(view.text, view.model, view.kernel)
    loop = strided_by_block(view, launches)
    check_apart(view, loop)
    edits = [TextEdit(_head(view, loop), _number(view, loop)), *_axes(view, loop)]
    for launch in launches.read():
        _relaunch(view, launches, launch, loop)
    title = f"Give the outputs over {loop.variable} to blocks of their own"
    return RewriteResult((*edits, *launches.edits()), title=title, caveat=_CAVEAT)


def _head(view: View, loop: Counting) -> Span:
    """The loop without its body."""
    whole, body = view.span(loop.node), view.span(loop.body)
    return Span(whole.line, whole.column, body.line, body.column)


def _number(view: View, loop: Counting) -> str:
    """The output's number, and its limit."""
    margin = view.margin(loop.node)
    declared = view.written(field(loop.node, "initializer")).split("=")[0].strip()
    return (
        f"{declared} = blockIdx.x * blockDim.x + threadIdx.x;{view.text.newline}{margin}"
        f"if ({view.written(unwrapped(field(loop.node, 'condition')))}) "
    )


def _axes(view: View, loop: Counting) -> list[TextEdit]:
    """The numbers of blocks, each an axis further."""
    found, head = list[TextEdit](), _head(view, loop)
    for node in walk(view.body):
        number = _BLOCK.fullmatch(view.code(node)) if node.type == "field_expression" else None
        if number is None:
            continue
        if not view.is_plain(node) or head.contains(view.span(node)):
            raise Refused("the numbers of threads and blocks are used elsewhere too")
        found.append(TextEdit(view.span(node), f"blockIdx.{'yz'['xy'.index(number[1])]}"))
    return found


def _relaunch(view: View, launches: Launches, launch: Launch, loop: Counting) -> None:
    if launch.grid.axis(2) != "1" or any(launch.block.axis(AXES.index(a)) != "1" for a in "yz"):
        raise Refused("its launch uses all axes")
    size, threads = launch.site.block_value[0], launch.block.axis(0)
    if size is not None and not re.fullmatch(r"\w+", threads):
        threads = str(size)
    limit = host_text(view, launches, launch, view.written(loop.bounds[0]))
    rows = [launch.grid.axis(0), launch.grid.axis(1)]
    rows = rows[:1] if rows[1] == "1" else rows
    if any("." in row for row in rows) or not re.fullmatch(r"\w+", threads):
        raise Refused("its launch is written in a way that is not understood")
    launches.set_whole(launch.grid, f"dim3({', '.join([rounded_up(limit, threads), *rows])})")


REWRITE = Rewrite(
    slug="stride-into-grid",
    title="Give the outputs that a block strides over to blocks of their own",
    apply=refusing(_apply),
    answers=("grid-too-small",),
    chance=0.3,
    gain=1.3,
)
