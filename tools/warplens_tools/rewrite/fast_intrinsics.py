# SPDX-License-Identifier: Apache-2.0
"""fast-intrinsics

Use the special function units' own exponentials and divisions.

`expf` corrects what the special function units give, to the last digit or two, and takes care of every range: ten
instructions and more. `__expf` is two. Its relative error is a few units in the last digit for moderate arguments and
grows with them.

```cuda
__global__ void sigmoid(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 1.0f / (1.0f + expf(-in[i]));
}
```

```cuda
__global__ void sigmoid(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __fdividef(1.0f, (1.0f + __expf(-in[i])));
}
```

Only what is `float` changes. A division stays where its operands' types are not known. Functions of the device that the
kernel alone calls change with it. Sines, logarithms and powers, which lose more, are [fast-sines](fast-sines.md).
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.fast_calls import FastCalls
from warplens_tools.rewrite.common.reading import View, field, operator_of, refusing
from warplens_tools.text import TextEdit

CAVEAT = "lower precision: a few units in the last digit, more for large arguments"
_FAST = {"expf": "__expf", "exp10f": "__exp10f"}
#: What an exponential costs beside the memory's share of an element, some ten instructions; and of what has none.
_COSTLY, _LEAST = 0.2, 0.15
_COSTLY_CALL = re.compile(r"\bexp(?:10)?f?\s*\(")
#: A variable that a step makes of itself: `h = a * h + b`.
_STEP = re.compile(r"\b(\w+)\s*=[^;=]*\*\s*\1\b(?!\s*[\[(])|\b(\w+)\s*=\s*\2\s*\*")


def _apply(view: View, target: Target) -> RewriteResult:
    types = TypeReader(view.forms, view.pointers)
    edits = FastCalls(view, types, _FAST).edits(target)
    for node in walk(view.body):
        on_line = not target.lines or view.span(node).line in target.lines
        if on_line and node.type == "binary_expression" and operator_of(node) == "/":
            edits += _division(view, types, node)
    if not edits:
        raise Refused("no float here is computed by a function that has a fast form")
    return RewriteResult(tuple(edits), title="Fast intrinsics", caveat=CAVEAT)


def costly(code: str) -> float:
    """What faster functions are worth: little for one exponential, more for many, and twice that where a loop that
    stores as it goes waits for each.
    """
    worth = _COSTLY * len(_COSTLY_CALL.findall(code))
    return max(_LEAST, min(1.0, worth * (2.0 if _STEP.search(code) else 1.0)))


def _division(view: View, types: TypeReader, node: Node) -> list[TextEdit]:
    """`__fdividef(a, b)`, by edits around the operands, so that calls inside them may change too."""
    left, right = field(node, "left"), field(node, "right")
    kinds = {types.type(left), types.type(right)}
    if (
        kinds not in ({"float"}, {"float", "int"})
        or types.type(right) != "float"
        or not view.is_plain_enough(node)
    ):
        return []
    if right.type == "number_literal":
        return []  # The compiler multiplies where that is exact.
    between = view.text.span(view.end(left), view.start(right))
    if view.text.slice(between).strip() != "/":
        return []
    start, end = view.start(node), view.end(node)
    return [
        TextEdit(view.text.span(start, start), "__fdividef("),
        TextEdit(between, ", "),
        TextEdit(view.text.span(end, end), ")"),
    ]


REWRITE = Rewrite(
    slug="fast-intrinsics",
    title="Fast intrinsics for exponentials and divisions",
    apply=refusing(_apply),
    answers=("sfu-bound",),
    useless_at="dram",
    likely=costly,
    chance=0.5,
    gain=1.7,
    spares=True,
)
