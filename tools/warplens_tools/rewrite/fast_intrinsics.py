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

Only what is `float` changes. A division stays where its operands' types are not known. Functions of the device that the
kernel alone calls change with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import View, calls, field, operator_of, refusing
from warplens_tools.text import TextEdit

CAVEAT = "lower precision: a few units in the last digit, more for large arguments"
_PLAIN = {"expf": "__expf", "logf": "__logf", "log2f": "__log2f", "log10f": "__log10f", "sinf": "__sinf",
          "cosf": "__cosf", "tanf": "__tanf", "powf": "__powf", "exp10f": "__exp10f"}  # fmt: skip
#: What a call costs beside the memory's share of an element: a power some hundred instructions, an exponential ten.
_COSTLY = {"pow": 1.0, "tan": 0.8, "sin": 0.5, "cos": 0.5, "log": 0.3, "log10": 0.3, "exp": 0.2, "exp10": 0.3}
_COSTLY_CALL = re.compile(rf"\b({'|'.join(_COSTLY)})f?\s*\(")
_LEAST = 0.15
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
    if not target.lines:
        edits += _in_helpers(view)
    if not edits:
        raise Refused("no float here is computed by a function that has a fast form")
    return RewriteResult(tuple(edits), title="Fast intrinsics", caveat=CAVEAT)


def _in_helpers(view: View) -> Iterator[TextEdit]:
    """The same in functions of the device that the kernel alone calls; what another kernel calls stays."""
    tree, kernel = view.file, view.kernel.span
    called = {name.split("<")[0] for name, _ in calls(view.body, view)}
    for function in tree.functions:
        body, declarator = (function.child_by_field_name(name) for name in ("body", "declarator"))
        if body is None or declarator is None:
            continue
        head = tree.masked.code[function.start_byte : body.start_byte].decode("ascii")
        name = next((word for word in called if re.search(rf"\b{re.escape(word)}\s*\(", head)), "")
        if not name or "__device__" not in head or "__host__" in head or "__global__" in head:
            continue
        own, uses = tree.span(function), re.finditer(rf"\b{name}\b", view.text.text)
        places = [view.text.span(m.start(), m.end()) for m in uses]
        if not all(kernel.contains(place) or own.contains(place) for place in places):
            continue
        for node in walk(body):
            callee = node.child_by_field_name("function") if node.type == "call_expression" else None
            fast = _PLAIN.get(tree.code_of(callee).removeprefix("std::")) if callee is not None else None
            if callee is not None and fast is not None and tree.text_of(callee) == tree.code_of(callee):
                yield TextEdit(tree.span(callee), fast)


def costly(code: str) -> float:
    """What faster functions are worth: much for a power or sines, little for one exponential."""
    return max(_LEAST, min(1.0, sum(_COSTLY[m[1]] for m in _COSTLY_CALL.finditer(code))))


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
    likely=costly,
    chance=0.5,
    gain=1.7,
)
