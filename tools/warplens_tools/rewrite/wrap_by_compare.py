# SPDX-License-Identifier: Apache-2.0
"""wrap-by-compare

Wrap an index around by a comparison instead of a division.

`(x + dx + width) % width` is a division of some twenty instructions, done for each neighbour of each cell. Its
operand lies below twice the width nearly always: then a comparison and a subtraction give the same. The division
stays for all else.

```cuda
__global__ void life(const unsigned char* cells, unsigned char* next, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int alive = 0;
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) {
      int xx = (x + dx + width) % width, yy = (y + dy + height) % height;
      if (dx != 0 || dy != 0) alive += cells[yy * width + xx];
    }
  }
  next[y * width + x] = alive == 3 || (alive == 2 && cells[y * width + x]);
}
```

```cuda
__device__ __forceinline__ int wrap_around(int a, int n) {
  // As a rule a is below 2 n, and no division is needed.
  if (a >= 0 && a < n) return a;
  if (a >= n && a - n < n) return a - n;
  return a % n;
}

__global__ void life(const unsigned char* cells, unsigned char* next, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int alive = 0;
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) {
      int xx = wrap_around(x + dx + width, width), yy = wrap_around(y + dy + height, height);
      if (dx != 0 || dy != 0) alive += cells[yy * width + xx];
    }
  }
  next[y * width + x] = alive == 3 || (alive == 2 && cells[y * width + x]);
}
```

Taken are sums that add the length itself, and variables a few places further: `(i + 1) % n`. Left alone: a length that
the compiler knows, by which it divides cheaply, and operands whose types the file does not tell.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.groups import style_of
from warplens_tools.rewrite.common.integer_kinds import kind_of
from warplens_tools.rewrite.common.reading import (
    View,
    field,
    operator_of,
    refusing,
    squeezed,
    substituted,
    unwrapped,
)
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

#: So far a neighbour may be: further away lie strides, of which nobody knows how large they are.
_NEAR = 64
_BELOW = "// As a rule a is below 2 n, and no division is needed."
_SIGNED = """\
__device__ __forceinline__ {kind} {name}({kind} a, {kind} n) {{
  {said}
  if (a >= 0 && a < n) return a;
  if (a >= n && a - n < n) return a - n;
  return a % n;
}}
"""
_UNSIGNED = """\
__device__ __forceinline__ {kind} {name}({kind} a, {kind} n) {{
  {said}
  if (a < n) return a;
  if (a - n < n) return a - n;
  return a % n;
}}
"""


def _apply(view: View, target: Target) -> RewriteResult:
    found = [n for n in _wrapped(view) if not target.lines or view.span(n).line in target.lines]
    kinds = {n.id: kind_of(view, n) for n in found}
    found = [n for n in found if kinds[n.id] is not None]
    if not found:
        raise Refused("nothing here is wrapped around by a division")
    style = Style(view)
    name = style.name(style_of(view.kernel.name, style.step).function("wrap", "around"))
    inside = {n.id for one in found for n in walk(one) if n.id != one.id}
    outermost = [n for n in found if n.id not in inside]
    edits = [TextEdit(view.span(n), _written(view, n, found, name)) for n in outermost]
    code = []
    for kind in sorted({kinds[n.id] for n in found} - {None}, key=str):
        form = _UNSIGNED if kind in ("unsigned int", "size_t") else _SIGNED
        code.append(style.lines(form.format(kind=kind, name=name, said=_BELOW), 0) + view.text.newline)
    above = style.above(view.text.newline.join(code))
    return RewriteResult((above, *edits), title="Wrap around by a comparison")


def _wrapped(view: View) -> Iterator[Node]:
    """Remainders of what is below twice the divisor as a rule."""
    for node in walk(view.body):
        if node.type != "binary_expression" or operator_of(node) != "%" or not view.is_plain_enough(node):
            continue
        by = unwrapped(field(node, "right"))
        if view.value(by) is not None or any(n.type == "call_expression" for n in walk(node)):
            continue
        if any(n.type in ("update_expression", "assignment_expression") for n in walk(node)):
            continue
        terms = list(_terms(unwrapped(field(node, "left")), sign=1))
        length = squeezed(view.code(by))
        rest = [n for n, sign in terms if sign < 0 or squeezed(view.code(n)) != length]
        if len(rest) < len(terms) and len(rest) > 0:
            yield node
            continue
        near = [n for n in rest if (value := view.value(n)) is not None and abs(value) <= _NEAR]
        if len(terms) == len(near) + 1 and near:
            yield node


def _terms(node: Node, *, sign: int) -> Iterator[tuple[Node, int]]:
    """What is added and taken away."""
    node = unwrapped(node)
    if node.type == "binary_expression" and operator_of(node) in ("+", "-"):
        yield from _terms(field(node, "left"), sign=sign)
        yield from _terms(field(node, "right"), sign=sign if operator_of(node) == "+" else -sign)
    else:
        yield node, sign


def _written(view: View, node: Node, found: list[Node], name: str) -> str:
    """A remainder as a call, and those within its operands."""
    sides = []
    for side in ("left", "right"):
        part = unwrapped(field(node, side))
        mine = {n.id for n in walk(part)}
        inner = [n for n in found if n.id in mine]
        nested = {n.id for one in inner for n in walk(one) if n.id != one.id}
        outer = [(n, _written(view, n, found, name)) for n in inner if n.id not in nested]
        sides.append(outer[0][1] if outer and outer[0][0].id == part.id else substituted(view, part, outer))
    return f"{name}({sides[0]}, {sides[1]})"


REWRITE = Rewrite(
    slug="wrap-by-compare",
    title="Wrap around by a comparison instead of a division",
    apply=refusing(_apply),
    answers=("integer-division",),
    useless_at="dram",
    chance=0.7,
    gain=2.0,
)
