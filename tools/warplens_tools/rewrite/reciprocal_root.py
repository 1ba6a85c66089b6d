# SPDX-License-Identifier: Apache-2.0
"""reciprocal-root

Compute the reciprocal of a root by one instruction.

`1.0f / sqrtf(x)` is a root and a division, each a subroutine of a dozen instructions around a special function.
`rsqrtf(x)` is that special function, and right within two units of the last digit.

```cuda
__global__ void normalise(float3* v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float3 p = v[i];
    float inverse = 1.0f / sqrtf(p.x * p.x + p.y * p.y + p.z * p.z);
    v[i] = make_float3(p.x * inverse, p.y * inverse, p.z * inverse);
  }
}
```

```cuda
__global__ void normalise(float3* v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float3 p = v[i];
    float inverse = rsqrtf(p.x * p.x + p.y * p.y + p.z * p.z);
    v[i] = make_float3(p.x * inverse, p.y * inverse, p.z * inverse);
  }
}
```
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import View, field, operator_of, refusing, unwrapped
from warplens_tools.text import TextEdit

_ROOTS = {"sqrtf": "rsqrtf", "std::sqrt": "", "sqrt": "", "__fsqrt_rn": "rsqrtf"}


def _apply(view: View, target: Target) -> RewriteResult:
    types = TypeReader(view.forms, view.pointers)
    edits: list[TextEdit] = []
    last = -1
    for node in walk(view.body):
        is_wanted = not target.lines or view.span(node).line in target.lines
        if (
            node.type != "binary_expression"
            or operator_of(node) != "/"
            or not is_wanted
            or node.start_byte < last
        ):
            continue
        written = _root(view, types, node)
        if written:
            edits.append(TextEdit(view.span(node), written))
            last = node.end_byte
    if not edits:
        raise Refused("nothing here is divided by a root")
    return RewriteResult(tuple(edits), title="Reciprocal root", caveat="results may differ in the last digit")


def _root(view: View, types: TypeReader, node: Node) -> str:
    """`x * rsqrtf(y)` for `x / sqrtf(y)`; "" where it is none."""
    left, right = field(node, "left"), unwrapped(field(node, "right"))
    if right.type != "call_expression" or not view.is_plain_enough(node):
        return ""
    name, given = view.code(field(right, "function")), field(right, "arguments").named_children
    if name not in _ROOTS or len(given) != 1:
        return ""
    kind = types.type(given[0])
    root = _ROOTS[name] or {"float": "rsqrtf", "double": "rsqrt"}.get(kind or "", "")
    if not root:
        return ""
    call = f"{root}({view.written(given[0])})"
    written = view.written(left)
    is_one = re.fullmatch(r"1(?:\.0*)?[fF]?", view.code(unwrapped(left))) is not None
    if is_one:
        return call
    is_product = left.type != "binary_expression" or operator_of(left) in ("*", "/")
    return f"{written if is_product else f'({written})'} * {call}"


REWRITE = Rewrite(
    slug="reciprocal-root",
    title="Reciprocal root instead of a division by a root",
    apply=refusing(_apply),
    answers=("sfu-bound",),
    useless_at="dram",
    chance=0.4,
    gain=1.1,
    spares=True,
)
