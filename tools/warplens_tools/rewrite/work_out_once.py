# SPDX-License-Identifier: Apache-2.0
"""work-out-once

Work out once what an axis of the grid does not change.

Where the same powers, sines or exponentials are computed by every block along an axis that their arguments do not
depend on, a thread takes several values of that axis: it computes them once, and walks the axis with what is left.

```cuda
__global__ void rotate(float* q, int tokens, int heads, int dim) {
  int token = blockIdx.x;
  int head = blockIdx.y;
  int i = threadIdx.x;
  if (i >= dim / 2) return;
  float angle = token * powf(10000.0f, -2.0f * i / dim);
  float c = cosf(angle), s = sinf(angle);
  float* row = q + (token * heads + head) * dim;
  float a = row[i], b = row[i + dim / 2];
  row[i] = a * c - b * s;
  row[i + dim / 2] = a * s + b * c;
}
void run(float* q, int tokens, int heads, int dim) {
  rotate<<<dim3(tokens, heads), 64>>>(q, tokens, heads, dim);
}
```

```cuda
constexpr int kItemsPerThread = 8;

__global__ void rotate(float* q, int tokens, int heads, int dim) {
  int token = blockIdx.x;
  int i = threadIdx.x;
  if (i >= dim / 2) return;
  float angle = token * powf(10000.0f, -2.0f * i / dim);
  float c = cosf(angle), s = sinf(angle);
  for (int head = blockIdx.y; head < heads; head += gridDim.y) {
    float* row = q + (token * heads + head) * dim;
    float a = row[i], b = row[i + dim / 2];
    row[i] = a * c - b * s;
    row[i + dim / 2] = a * s + b * c;
  }
}
void run(float* q, int tokens, int heads, int dim) {
  rotate<<<dim3(tokens, (heads + kItemsPerThread - 1) / kItemsPerThread), 64>>>(q, tokens, heads, dim);
}
```

Left alone: kernels whose threads share memory or wait for each other, an axis of which nothing says how long it is,
and work that sets variables from one value of the axis to the next.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite import index_into_axes
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.axis_walk import AxisWalk, LaunchAxis, launch_axes
from warplens_tools.rewrite.common.chains import Chain
from warplens_tools.rewrite.common.launches import AXES, rounded_up
from warplens_tools.rewrite.common.reading import View, assigned, refusing, shares_memory, statements
from warplens_tools.text import SourceText

_ITEMS = 8
_NOTHING = "nothing costly is computed"
_COSTLY = re.compile(
    r"\b(?:std::)?(?:__)?(?:pow|sin|cos|tan|sincos|exp|exp2|exp10|log|log2|log10|erf|tanh|cbrt|atan2?|acos|asin)f?\s*\("
)


def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
    """Walk an axis of the grid, which is divided out of the thread's number first where it has to be."""
    found = _ONCE.apply(text, model, kernel, target)
    if found.edits or found.refused == _NOTHING:
        return found
    flat = Chain(index_into_axes.REWRITE, _ONCE, restrict=False).result(
        _ONCE.title, text, model, kernel, target
    )
    return flat if flat.edits else found


def _apply(view: View, target: Target) -> RewriteResult:
    del target
    if shares_memory(view) or "gridDim" in view.code(view.body):
        raise Refused("its threads work together, or stride by the grid")
    if not _COSTLY.search(view.code(view.body)):
        raise Refused(_NOTHING)
    why = "no axis of the grid leaves what is costly as it is"
    for axis in launch_axes(view):
        try:
            return _walked(view, axis)
        except Refused as error:
            why = str(error)
    raise Refused(why)


def _walked(view: View, axis: LaunchAxis) -> RewriteResult:
    walked = AxisWalk(view, axis, _block(view))
    if not _COSTLY.search(" ".join(view.code(n) for n in walked.unmoved)):
        raise Refused("no axis of the grid leaves what is costly as it is")
    items, letter, number = walked.style.constant("kItemsPerThread", str(_ITEMS)), axis.letter, axis.number
    step = f"blockDim.{letter} * gridDim.{letter}" if axis.threads else f"gridDim.{letter}"
    first = view.written(number.value) if number.value is not None else ""
    edits = walked.edits(first, step, lambda: _launched(walked))
    for launch in walked.launches.read():
        index = AXES.index(letter)
        walked.launches.set(launch.grid, {index: rounded_up(launch.grid.axis(index), items)})
    edits = [walked.style.constants(), *edits, *walked.launches.edits()]
    return RewriteResult(tuple(edits), title=f"Work out once what {walked.name} does not change")


def _block(view: View) -> list[Node]:
    """The statements among which the first costly one is."""
    at = next(n for n in walk(view.body) if n.type == "call_expression" and _COSTLY.match(view.code(n)))
    outer: Node | None = at
    while outer is not None and outer.type not in ("declaration", "expression_statement"):
        outer = outer.parent
    block = outer.parent if outer is not None else None
    if outer is None or block is None or block.type != "compound_statement":
        raise Refused("what is costly is no statement of its own")
    around: Node | None = block
    while around is not None and around.id != view.body.id:
        if around.type not in ("compound_statement", "if_statement", "for_statement"):
            raise Refused("what is costly is not computed for every thread")
        around = around.parent
    return statements(block)


def _launched(walked: AxisWalk) -> str:
    """The parameter or constant that every launch has as its number of blocks along the axis."""
    if walked.axis.threads:
        raise Refused("nothing says how long the axis is")
    index, found = AXES.index(walked.axis.letter), set[str]()
    for launch in walked.launches.read():
        extent = launch.grid.axis(index).strip()
        names = [
            p.name
            for p in walked.view.kernel.parameters
            if not p.pointer and walked.launches.argument(launch, p.name).strip() == extent
        ]
        constant = any(c.name == extent for c in walked.view.model.constants)
        constant = constant or walked.view.file.macros.get(extent) is not None or extent.isdigit()
        found.add(names[0] if names else extent if constant else "")
    changed = {name for name, _ in assigned(walked.view.body, walked.view)}
    if len(found) != 1 or found & {"", "1"} or found & changed:
        raise Refused("nothing says how long the axis is")
    return found.pop()


_ONCE = Rewrite("work-out-once", "Work out once what an axis of the grid does not change", refusing(_apply))
REWRITE = Rewrite(
    slug="work-out-once",
    title=_ONCE.title,
    apply=apply,
    answers=("repeated-work", "sfu-bound"),
    useless_at="dram",
    chance=0.5,
    gain=1.8,
    ranges={"kItemsPerThread": (2, 4, 8, 16, 32)},
)
