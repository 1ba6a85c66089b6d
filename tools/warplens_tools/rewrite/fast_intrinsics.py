# SPDX-License-Identifier: Apache-2.0
"""fast-intrinsics

Use the special function units' own exponentials, logarithms, sines and divisions.

`expf` and its like correct what the special function units give, to the last digit or two, and take care of every
range: ten to forty instructions. `__expf` is two. Their relative error is a few units in the last digit for moderate
arguments and grows with them; a sine of thousands has lost its digits.

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

Only what is `float` changes. A division stays where its operands' types are not known.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import View, field, operator_of, refusing
from warplens_tools.text import TextEdit

CAVEAT = "lower precision: a few units in the last digit, more for large arguments"
_PLAIN = {"expf": "__expf", "logf": "__logf", "log2f": "__log2f", "log10f": "__log10f", "sinf": "__sinf",
          "cosf": "__cosf", "tanf": "__tanf", "powf": "__powf", "exp10f": "__exp10f"}  # fmt: skip
_OVERLOADED = {name.removesuffix("f"): fast for name, fast in _PLAIN.items()}


def _apply(view: View, target: Target) -> RewriteResult:
    types = TypeReader(view.forms, view.pointers)
    edits: list[TextEdit] = []
    for node in walk(view.body):
        if target.lines and view.span(node).line not in target.lines:
            continue
        if node.type == "call_expression":
            edits += _call(view, types, node)
        elif node.type == "binary_expression" and operator_of(node) == "/":
            edits += _division(view, types, node)
    if not edits:
        raise Refused("no float here is computed by a function that has a fast form")
    return RewriteResult(tuple(edits), title="Fast intrinsics", caveat=CAVEAT)


def _call(view: View, types: TypeReader, node: Node) -> list[TextEdit]:
    function = field(node, "function")
    name = view.code(function).removeprefix("::").removeprefix("std::")
    fast = _PLAIN.get(name)
    if fast is None and name in _OVERLOADED and types.type(node) == "float":
        fast = _OVERLOADED[name]
    is_plain = view.written(function).endswith(name)
    return [TextEdit(view.span(function), fast)] if fast is not None and is_plain else []


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
    title="Fast intrinsics for exponentials, logarithms, sines and divisions",
    apply=refusing(_apply),
    answers=("sfu-bound",),
    useless_at="dram",
    chance=0.3,
    gain=1.15,
)
