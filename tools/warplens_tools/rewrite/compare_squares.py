# SPDX-License-Identifier: Apache-2.0
"""compare-squares

Compare squares instead of a root.

Whether a length is below a radius is the same question as whether its square is below the radius squared. A root is a
special function with a dozen instructions around it, in double two dozen, and a loop that asks in every step waits for
it each time.

```cuda
__global__ void escapes(int* out, int n, int most) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = 0, y = 0;
  int steps = 0;
  while (steps < most && sqrt(x * x + y * y) <= 2.0) {
    double next = x * x - y * y + i / 1000.0;
    y = 2 * x * y + 0.1;
    x = next;
    ++steps;
  }
  out[i] = steps;
}
```

```cuda
__global__ void escapes(int* out, int n, int most) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = 0, y = 0;
  int steps = 0;
  while (steps < most && x * x + y * y <= 4.0) {
    double next = x * x - y * y + i / 1000.0;
    y = 2 * x * y + 0.1;
    x = next;
    ++steps;
  }
  out[i] = steps;
}
```

The bound is a number, another root, or a variable or parameter of the root's own type or an integer, which is taken to
be no less than zero. Left alone: a root whose value is kept, and a bound that is computed.
"""

from __future__ import annotations

import re
from fractions import Fraction

from tree_sitter import Node

from warplens_tools.cuda.facts.own_names import is_own
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import View, field, operator_of, refusing, unwrapped
from warplens_tools.text import TextEdit

CAVEAT = (
    "what lies on the bound but for rounding may fall on its other side, as all does beside a negative bound"
)
_ROOTS = frozenset({"sqrt", "sqrtf", "std::sqrt", "::sqrt", "__fsqrt_rn"})
_COMPARISONS = frozenset({"<", "<=", ">", ">="})
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([fF]?)")
#: What binds less than a comparison, or is one.
_LOOSE = frozenset({"conditional_expression", "assignment_expression", "comma_expression"})
_LOOSE_OPERATORS = frozenset({"&&", "||", "|", "&", "^", "==", "!=", "<", "<=", ">", ">="})


def _apply(view: View, target: Target) -> RewriteResult:
    types = TypeReader(view.forms, view.pointers)
    edits = []
    for node in walk(view.body):
        is_comparison = node.type == "binary_expression" and operator_of(node) in _COMPARISONS
        is_wanted = not target.lines or view.span(node).line in target.lines
        written = _squares(view, types, node) if is_comparison and is_wanted else ""
        if written and view.is_plain_enough(node):
            edits.append(TextEdit(view.span(node), written))
    if not edits:
        raise Refused("no root here is compared with what has a square")
    return RewriteResult(tuple(edits), title="Compare squares instead of a root", caveat=CAVEAT)


def _squares(view: View, types: TypeReader, node: Node) -> str:
    """The comparison of squares; "" where it stays."""
    left, right = field(node, "left"), field(node, "right")
    under = [_under_root(view, side) for side in (left, right)]
    if not any(under):
        return ""
    kind = next(types.type(inner) for inner in under if inner is not None)
    sides = [
        _operand(view, inner) if inner is not None else _square(view, types, unwrapped(side), kind)
        for inner, side in zip(under, (left, right), strict=True)
    ]
    return f"{sides[0]} {operator_of(node)} {sides[1]}" if all(sides) else ""


def _under_root(view: View, node: Node) -> Node | None:
    """What a root is taken of; None for anything else."""
    call = unwrapped(node)
    name = view.code(field(call, "function")) if call.type == "call_expression" else ""
    if name not in _ROOTS or is_own(view.expanded, name.rsplit(":", 1)[-1], call):
        return None
    given = field(call, "arguments").named_children
    return given[0] if len(given) == 1 else None


def _operand(view: View, node: Node) -> str:
    """An expression as one side of a comparison."""
    is_loose = node.type in _LOOSE or operator_of(node) in _LOOSE_OPERATORS
    return f"({view.written(node)})" if is_loose else view.written(node)


def _square(view: View, types: TypeReader, bound: Node, kind: str | None) -> str:
    """The square of a bound; "" where nothing says that it is one and stays the same."""
    written = view.written(bound)
    number = _NUMBER.fullmatch(view.code(bound))
    if number is not None:
        square = Fraction(number[1]) ** 2
        whole = square.denominator == 1 and square < 1 << 24
        return f"{square}.0{number[2]}" if whole else f"{written} * {written}"
    is_value = bound.type == "identifier" and kind is not None and types.type(bound) in (kind, "int")
    return f"{written} * {written}" if is_value else ""


REWRITE = Rewrite(
    slug="compare-squares",
    title="Compare squares instead of a root",
    apply=refusing(_apply),
    answers=("compared-root", "sfu-bound"),
    useless_at="dram",
    chance=0.5,
    gain=1.5,
)
