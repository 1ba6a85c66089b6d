# SPDX-License-Identifier: Apache-2.0
"""widen-access

Let each thread handle several neighbouring elements, loaded and stored 8 or 16 bytes at a time.

A warp that loads one float a lane has 128 bytes on the way for one instruction; with one byte or one half it has 32
or 64. Sixteen bytes a lane keep four to sixteen times as much on the way, with as many instructions fewer. The grid
shrinks accordingly. Elements that do not fill a vector, or data that is not aligned, are done one by one as before.

```cuda
__global__ void scale_add(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = a * x[i] + y[i];
  }
}
void run(const float* x, float* y, int n) {
  scale_add<<<(n + 255) / 256, 256>>>(x, y, 2.0f, n);
}
```

```cuda
constexpr int kVector = 4;  // elements of a thread, up to 16 bytes at a time

__global__ void scale_add(const float* x, float* y, float a, int n) {
  const int first = kVector * (blockIdx.x * blockDim.x + threadIdx.x);
  if (first + kVector <= n &&
      reinterpret_cast<size_t>(&y[first]) % 16 == 0 &&
      reinterpret_cast<size_t>(&x[first]) % 16 == 0) {
    alignas(16) float yPart[kVector];
    *reinterpret_cast<float4*>(yPart) = *reinterpret_cast<const float4*>(&y[first]);
    alignas(16) float xPart[kVector];
    *reinterpret_cast<float4*>(xPart) = *reinterpret_cast<const float4*>(&x[first]);
    #pragma unroll
    for (int v = 0; v < kVector; ++v) {
      yPart[v] = a * xPart[v] + yPart[v];
    }
    *reinterpret_cast<float4*>(&y[first]) = *reinterpret_cast<float4*>(yPart);
  } else {
    for (int i = first; i < n && i < first + kVector; ++i) {
      y[i] = a * x[i] + y[i];
    }
  }
}
void run(const float* x, float* y, int n) {
  scale_add<<<((n + 255) / 256 + kVector - 1) / kVector, 256>>>(x, y, 2.0f, n);
}
```

It takes every type of 1, 2, 4 or 8 bytes, half and bfloat16 too, rows of images, and interleaved channels
(`rgb[3 * i + 1]`). Accesses at other indices than the thread's own stay as they are. Left alone: an
array that is only stored to under a condition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared, is_set, unqualified
from warplens_tools.rewrite.common.guarded_head import guarded_head
from warplens_tools.rewrite.common.launches import Launches, rounded_up, times
from warplens_tools.rewrite.common.outputs import Axis, Outputs, launched_outputs
from warplens_tools.rewrite.common.reading import View, refusing, shares_memory, squeezed
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.style import Style
from warplens_tools.rewrite.common.vector_writer import VectorWriter
from warplens_tools.rewrite.common.vectors import (
    CAVEAT,
    WIDEST,
    Work,
    elements_of_vector,
    read_arrays,
)
from warplens_tools.text import TextEdit

#: Loops that end by what they compute.
_BY_DATA = frozenset({"while_statement", "do_statement"})


_LOOP = re.compile(r"\b(?:for|while)\s*\(")
#: The row of a thread, as axes along y number it.
_ROW = ("blockIdx.y*blockDim.y+threadIdx.y", "threadIdx.y+blockIdx.y*blockDim.y")
#: Threads of a block where vectors are numbered one after another.
_THREADS = 256


def _apply(view: View, target: Target) -> RewriteResult:
    return widened(view, target)


def widened(view: View, target: Target, *, row_by_row: bool = False) -> RewriteResult:
    """The kernel with several elements a thread. `row_by_row`: the vectors of all rows are numbered one after another
    along x, instead of along y and x.

    Raises:
        Refused: elements of a thread's own could not be accessed in vectors, or lie along one axis already.
    """
    if shares_memory(view):
        raise Refused("the threads of a block work together")
    launches, outputs = launched_outputs(view)
    axis = next((a for a in outputs.axes if a.letter == "x"), None)
    is_divided = any(not a.value for a in outputs.axes)
    if axis is None or not axis.limit or axis.offset or outputs.early or is_divided:
        raise Refused("no element of its own is handled by each thread")
    if outputs.others and any(not a.limit for a in outputs.axes):
        raise Refused("what its last element is is not asked along each axis")
    if any(n.type in _BY_DATA for s in outputs.work for n in walk(s)):
        raise Refused("data say how long an element takes: its loads are little of that")
    own = _own(view, outputs, axis)
    work = Work(axis.name, axis.type, axis.limit, outputs.work, own, outputs.others)
    arrays = read_arrays(view, work, target.names)
    style, count = Style(view), elements_of_vector(view, arrays)
    vector = style.constant("kVector", str(count), f"elements of a thread, up to {WIDEST} bytes at a time")
    writer = VectorWriter(view, style, work, arrays, vector, count)
    above = [d for d in outputs.declared if d not in own]
    if row_by_row:
        top, place = _row_by_row(view, outputs, axis, above, style, vector)
        _relaunch_rows(view, launches, axis, _row_axis(outputs), vector)
    else:
        top, place = _top(view, outputs.axes, outputs, axis, above), axis.value
        for launch in launches.read():
            launches.set(launch.grid, {0: rounded_up(launch.grid.axis(0), vector)})
    top += [f"const {writer.type} {writer.first} = {vector} * ({place});", writer.vectors()]
    newline = view.text.newline
    new = f"{{{newline}{style.lines(newline.join(top))}{newline}{style.margin}}}"
    edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), new)
    edits = (style.constants(), edit, *launches.edits())
    return RewriteResult(edits, title=f"Access {count} elements at a time", caveat=CAVEAT)


def _own(view: View, outputs: Outputs, axis: Axis) -> tuple[Declared, ...]:
    """The variables that each element has anew: those that the work changes, and what is made of them."""
    own, names = list[Declared](), set[str]()
    for one in outputs.declared:
        made = view.names(one.value) if one.value is not None else frozenset()
        if axis.name in outputs.rests[one.name] or is_set(view, outputs.work, one) or made & names:
            own.append(one)
            names.add(one.name)
    return tuple(own)


def _top(
    view: View, axes: Sequence[Axis], outputs: Outputs, axis: Axis, declared: list[Declared]
) -> list[str]:
    """What is the same for the elements of a thread; `axes` as they are to be numbered."""
    others = [a for a in axes if a.name != axis.name]
    absent = [f"{a.name} >= {a.limit}" for a in others if a.limit] + [f"!({c})" for c in outputs.uniform]
    return guarded_head(view, others, declared, absent)


def _row_axis(outputs: Outputs) -> Axis:
    row = next((a for a in outputs.axes if a.letter == "y"), None)
    if row is None or not row.limit or row.offset or squeezed(row.value) not in _ROW:
        raise Refused("its elements lie along one axis")
    return row


def _row_by_row(
    view: View, outputs: Outputs, axis: Axis, declared: list[Declared], style: Style, vector: str
) -> tuple[list[str], str]:
    """As `_top`, with the row divided out of the thread's number, and the thread's place in its row."""
    row, kind = _row_axis(outputs), unqualified(axis.type)
    number, threads = style.local("t"), style.local("threads")
    axes = [
        msgspec.structs.replace(a, value=f"{number} / {threads}") if a == row else a for a in outputs.axes
    ]
    top = _top(view, axes, outputs, axis, declared)
    at = next(i for i, line in enumerate(top) if line.endswith(f" {row.name} = {number} / {threads};"))
    width = axis.limit if re.fullmatch(r"[\w.]+", axis.limit) else f"({axis.limit})"
    top[at:at] = [
        f"const {kind} {threads} = ({width} + {vector} - 1) / {vector};  // of a row",
        f"const {kind} {number} = blockIdx.x * blockDim.x + threadIdx.x;",
    ]
    return top, f"{number} % {threads}"


def _relaunch_rows(view: View, launches: Launches, axis: Axis, row: Axis, vector: str) -> None:
    """As many threads as all rows have vectors."""
    for launch in launches.read():
        rows, width = (host_text(view, launches, launch, a.limit) for a in (row, axis))
        count = f"({times(rows, rounded_up(width, vector))} + {_THREADS - 1}) / {_THREADS}"
        planes = launch.grid.axis(2)
        launches.set_whole(launch.grid, count if planes == "1" else f"dim3({count}, 1, {planes})")
        launches.set_whole(launch.block, str(_THREADS))


def by_traffic(code: str) -> float:
    """What wider accesses are worth: little where an element is worked out in loops, which take longer than it does."""
    return 0.2 if _LOOP.search(code) else 1.0


REWRITE = Rewrite(
    slug="widen-access",
    title="Access several neighbouring elements at a time",
    # strides are walked in vectors as they are, by widen-loop
    apply=refusing(_apply, singly=False),
    answers=("scalar-access",),
    useless_at="sm",
    likely=by_traffic,
    chance=0.5,
    gain=1.7,
    ranges={"kVector": ()},
    spares=True,
)
