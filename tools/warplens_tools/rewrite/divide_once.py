# SPDX-License-Identifier: Apache-2.0
"""divide-once

Divide once before a loop, and multiply by the reciprocal inside.

A division of floats is a reciprocal and two or more corrections, some ten instructions, in double twice as many;
a multiplication is one. The compiler must not do this by itself, since it rounds once more.

```cuda
__global__ void normalise(float* rows, const float* sums, int n, int width) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < n) {
    float sum = sums[row];
    for (int c = 0; c < width; ++c) {
      rows[row * width + c] /= sum;
    }
  }
}
```

```cuda
__global__ void normalise(float* rows, const float* sums, int n, int width) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < n) {
    float sum = sums[row];
    const float sumInverse = 1.0f / sum;
    for (int c = 0; c < width; ++c) {
      rows[row * width + c] *= sumInverse;
    }
  }
}
```

It takes divisors that are one variable which the loop does not set, and that is a float or a double.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import View, assigned, field, operator_of, refusing, unwrapped
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit


def _apply(view: View, target: Target) -> RewriteResult:
    types = TypeReader(view.forms, view.pointers)
    style, edits = Style(view), list[TextEdit]()
    inverses: dict[tuple[int, str], str] = {}
    for node, divisor in _divisions(view):
        if target.lines and view.span(node).line not in target.lines:
            continue
        name, kind = view.code(divisor), types.type(divisor)
        loop = _loop(view, node, name)
        left = types.type(field(node, "left"))
        if (
            loop is None
            or kind not in ("float", "double")
            or left not in (kind, "int")
            or not view.is_plain_enough(node)
        ):
            continue
        if (loop.id, name) not in inverses:
            inverses[loop.id, name] = style.local(f"{name}_inverse" if "_" in name else f"{name}Inverse")
            edits.append(
                _before(view, loop, f"const {kind} {inverses[loop.id, name]} = {_one(kind)} / {name};")
            )
        edits += _multiplied(view, node, inverses[loop.id, name])
    if not edits:
        raise Refused("no loop divides by a float that it leaves as it is")
    return RewriteResult(
        tuple(edits), title="Divide once before the loop", caveat="results may differ in the last digit"
    )


def _one(kind: str) -> str:
    return "1.0f" if kind == "float" else "1.0"


def _divisions(view: View) -> Iterator[tuple[Node, Node]]:
    for node in walk(view.body):
        is_division = node.type == "binary_expression" and operator_of(node) == "/"
        if is_division or (node.type == "assignment_expression" and operator_of(node) == "/="):
            divisor = unwrapped(field(node, "right"))
            if divisor.type == "identifier":
                yield node, divisor


def _loop(view: View, node: Node, name: str) -> Node | None:
    """The outermost loop around it that leaves the divisor alone and stands where that is known."""
    found: Node | None = None
    binding = view.expanded.constants.binding(name, node.start_byte)
    if binding is None:
        return None
    current = node.parent
    while current is not None and current.start_byte >= view.body.start_byte:
        if current.type in LOOPS:
            in_block = current.parent is not None and current.parent.type == "compound_statement"
            if any(n == name for n, _ in assigned(current, view)) or binding.start >= current.start_byte:
                break
            found = current if in_block else found
        current = current.parent
    return found


def _before(view: View, loop: Node, line: str) -> TextEdit:
    start = view.start(loop)
    column = view.text.position(start)[1]
    above = view.text.line_text(view.span(loop).line)[: column - 1]
    pragma = view.span(loop).line - 1
    if above.strip():
        return TextEdit(view.text.span(start, start), f"{line} ")
    while pragma >= 1 and view.text.line_text(pragma).lstrip().startswith("#pragma unroll"):
        pragma -= 1
    at = view.text.offset(pragma + 1, 1)
    return TextEdit(view.text.span(at, at), f"{above}{line}{view.text.newline}")


def _multiplied(view: View, node: Node, inverse: str) -> list[TextEdit]:
    right = field(node, "right")
    between = view.text.span(view.end(field(node, "left")), view.start(right))
    sign = view.text.slice(between)
    if sign.count("/") != 1:
        raise Refused("a comment stands in the division")
    return [TextEdit(between, sign.replace("/", "*")), TextEdit(view.span(right), inverse)]


REWRITE = Rewrite(
    slug="divide-once",
    title="Divide once before the loop",
    apply=refusing(_apply),
    answers=("sfu-bound",),
    useless_at="dram",
    chance=0.4,
    gain=1.1,
    spares=True,
)
