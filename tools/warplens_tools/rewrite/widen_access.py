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

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import Declared
from warplens_tools.rewrite.common.launches import rounded_up
from warplens_tools.rewrite.common.outputs import Axis, Outputs, head_of, launched_outputs
from warplens_tools.rewrite.common.reading import View, assigned, refusing, shares_memory
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


def _apply(view: View, target: Target) -> RewriteResult:
    if shares_memory(view):
        raise Refused("the threads of a block work together")
    launches, outputs = launched_outputs(view)
    axis = next((a for a in outputs.axes if a.letter == "x"), None)
    is_divided = any(not a.value for a in outputs.axes)
    if axis is None or not axis.limit or axis.offset or outputs.early or is_divided:
        raise Refused("no element of its own is handled by each thread")
    if any(n.type in _BY_DATA for s in outputs.work for n in walk(s)):
        raise Refused("data say how long an element takes: its loads are little of that")
    changed = {name for s in outputs.work for name, _ in assigned(s, view)}
    own = _own(view, outputs, axis, changed)
    work = Work(axis.name, axis.type, axis.limit, outputs.work, own, outputs.others)
    arrays = read_arrays(view, work, target.names)
    style, count = Style(view), elements_of_vector(view, arrays)
    vector = style.constant("kVector", str(count), f"elements of a thread, up to {WIDEST} bytes at a time")
    writer = VectorWriter(view, style, work, arrays, vector, count)
    top = _top(view, outputs, axis, [d for d in outputs.declared if d not in own])
    top += [f"const {writer.type} {writer.first} = {vector} * ({axis.value});", writer.vectors()]
    newline = view.text.newline
    new = f"{{{newline}{style.lines(newline.join(top))}{newline}{style.margin}}}"
    for launch in launches.read():
        launches.set(launch.grid, {0: rounded_up(launch.grid.axis(0), vector)})
    edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), new)
    edits = (style.constants(), edit, *launches.edits())
    return RewriteResult(edits, title=f"Access {count} elements at a time", caveat=CAVEAT)


def _own(view: View, outputs: Outputs, axis: Axis, changed: set[str]) -> tuple[Declared, ...]:
    """The variables that each element has anew: those that the work changes, and what is made of them."""
    own, names = list[Declared](), set[str]()
    for one in outputs.declared:
        made = view.names(one.value) if one.value is not None else frozenset()
        if axis.name in outputs.rests[one.name] or one.name in changed or made & names:
            own.append(one)
            names.add(one.name)
    return tuple(own)


def _top(view: View, outputs: Outputs, axis: Axis, declared: list[Declared]) -> list[str]:
    """What is the same for the elements of a thread."""
    others = [a for a in outputs.axes if a.name != axis.name]
    top = head_of(view, others, declared)
    conditions = [f"{a.name} < {a.limit}" for a in others if a.limit] + list(outputs.uniform)
    return [*top, *([f"if (!({' && '.join(conditions)})) return;"] if conditions else [])]


REWRITE = Rewrite(
    slug="widen-access",
    title="Access several neighbouring elements at a time",
    apply=refusing(_apply),
    answers=("scalar-access",),
    useless_at="sm",
    chance=0.5,
    gain=1.7,
    ranges={"kVector": ()},
)
