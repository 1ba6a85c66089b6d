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
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.fast_calls import FastCalls, own_helpers
from warplens_tools.rewrite.common.plain_floats import PlainFloats
from warplens_tools.rewrite.common.reading import View, field, operator_of, refusing
from warplens_tools.text import SourceText, Span, TextEdit

CAVEAT = "lower precision: a few units in the last digit, more for large arguments"
_FAST = {"expf": "__expf", "exp10f": "__exp10f"}
#: What an exponential costs beside the memory's share of an element, some ten instructions; of what has none, and of
#: what has none that is to be seen, but comes to the same again and again, as in a function that a loop calls.
_COSTLY, _LEAST, _AGAIN = 0.2, 0.15, 0.4
_LOOP = re.compile(r"\b(?:for|while)\b")
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
    if not target.lines:
        edits += _in_helpers(view)
    if not edits:
        raise Refused("no float here is computed by a function that has a fast form")
    return RewriteResult(tuple(edits), title="Fast intrinsics", caveat=CAVEAT)


def costly(code: str) -> float:
    """What faster functions are worth: little for one exponential, more for many, and twice that where a loop that
    stores as it goes waits for each.
    """
    worth = _COSTLY * len(_COSTLY_CALL.findall(code))
    least = _AGAIN if not worth and _LOOP.search(code) else _LEAST
    return max(least, min(1.0, worth * (2.0 if _STEP.search(code) else 1.0)))


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
    return _written(view.text, view.span(node), view.span(left), view.span(right))


def _in_helpers(view: View) -> Iterator[TextEdit]:
    """The same in functions of the device that the kernel alone calls."""
    tree = view.file
    for function in own_helpers(view):
        types = PlainFloats(tree, function)
        for node in walk(field(function, "body")):
            if node.type != "binary_expression" or operator_of(node) != "/":
                continue
            left, right = node.named_children[0], node.named_children[-1]
            is_float = types.type(right) == "float" and types.type(left) != ""
            if is_float and right.type != "number_literal" and tree.text_of(node) == tree.code_of(node):
                yield from _written(view.text, tree.span(node), tree.span(left), tree.span(right))


def _written(text: SourceText, whole: Span, left: Span, right: Span) -> list[TextEdit]:
    """The edits of one division; none where more than its sign stands between its operands."""
    between = Span(left.end_line, left.end_column, right.line, right.column)
    if text.slice(between).strip() != "/":
        return []
    begin = Span(whole.line, whole.column, whole.line, whole.column)
    end = Span(whole.end_line, whole.end_column, whole.end_line, whole.end_column)
    return [TextEdit(begin, "__fdividef("), TextEdit(between, ", "), TextEdit(end, ")")]


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
