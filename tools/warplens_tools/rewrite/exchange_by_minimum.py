# SPDX-License-Identifier: Apache-2.0
"""exchange-by-minimum

Order two values by their minimum and maximum instead of exchanging them under a condition.

Sorting a few values of a thread's own, as a median filter does, is a row of steps that exchange two of them if they
are the wrong way round. A comparison and two choices are three instructions, or a branch; a minimum and a maximum are
two, and of a value that nobody asks for the compiler leaves out its half.

```cuda
__global__ void median3(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 1 || i >= n - 1) return;
  float v[3] = {in[i - 1], in[i], in[i + 1]};
  for (int a = 0; a < 2; ++a) {
    for (int b = 0; b < 2 - a; ++b) {
      if (v[b] > v[b + 1]) {
        float t = v[b];
        v[b] = v[b + 1];
        v[b + 1] = t;
      }
    }
  }
  out[i] = v[1];
}
```

```cuda
__global__ void median3(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 1 || i >= n - 1) return;
  float v[3] = {in[i - 1], in[i], in[i + 1]};
  for (int a = 0; a < 2; ++a) {
    for (int b = 0; b < 2 - a; ++b) {
      const float lower = fminf(v[b], v[b + 1]);
      v[b + 1] = fmaxf(v[b], v[b + 1]);
      v[b] = lower;
    }
  }
  out[i] = v[1];
}
```

Exchanges by `swap` are taken as well, and integers. Left alone: what else the branch does, values in memory that
other threads see, and types other than numbers of the language's own.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import written_before
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import plainly_declared_in, unqualified
from warplens_tools.rewrite.common.reading import (
    View,
    field,
    operator_of,
    refusing,
    squeezed,
    statements,
    unwrapped,
)
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

_FUNCTIONS = {
    "float": ("fminf", "fmaxf"),
    "double": ("fmin", "fmax"),
    **dict.fromkeys(("int", "unsigned", "unsigned int", "int32_t", "uint32_t"), ("min", "max")),
}
_SWAPS = frozenset({"swap", "std::swap"})
_IMPURE = frozenset({"call_expression", "update_expression", "assignment_expression"})
_CAVEAT = "results differ where values are not a number, which are lost when they are compared"


def _apply(view: View, target: Target) -> RewriteResult:
    style, edits, exact = Style(view), list[TextEdit](), True
    name = style.local("lower")
    for node in walk(view.body):
        found = _exchange(view, node)
        span = view.span(node)
        if found is None or (target.lines and span.line not in target.lines) or not view.is_plain(node):
            continue
        kind, less, more = found
        least, most = _FUNCTIONS[kind]
        exact = exact and kind not in ("float", "double")
        lines = [
            f"const {kind} {name} = {least}({less}, {more});",
            f"{more} = {most}({less}, {more});",
            f"{less} = {name};",
        ]
        outer = node.parent
        if outer is None or outer.type != "compound_statement" or len(statements(outer)) > 1:
            lines = ["{", *(style.step + line for line in lines), "}"]
        indent = re.match(r"[ \t]*", view.text.line_text(span.line))
        margin = indent[0] if indent is not None else ""
        edits.append(TextEdit(span, (view.text.newline + margin).join(lines)))
    if not edits:
        raise Refused("nothing is exchanged under a condition")
    return RewriteResult(tuple(edits), title="Order by minimum and maximum", caveat="" if exact else _CAVEAT)


def _exchange(view: View, node: Node) -> tuple[str, str, str] | None:
    """The type of two values, and which is to be the lesser one; None for what is no exchange of two."""
    if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
        return None
    condition = unwrapped(field(node, "condition"))
    if condition.type != "binary_expression" or operator_of(condition) not in ("<", ">", "<=", ">="):
        return None
    sides = [unwrapped(field(condition, side)) for side in ("left", "right")]
    if any(n.type in _IMPURE for side in sides for n in walk(side)) or not all(
        _is_own(view, s) for s in sides
    ):
        return None
    first, second = (squeezed(view.code(side)) for side in sides)
    kind = _exchanged(view, statements(field(node, "consequence")), {first, second}, sides[0])
    if first == second or kind not in _FUNCTIONS:
        return None
    left, right = (view.written(side) for side in sides)
    return (kind, left, right) if operator_of(condition) in (">", ">=") else (kind, right, left)


def _is_own(view: View, node: Node) -> bool:
    """Whether a value is a variable or an element of an array of the thread's own."""
    return node.type == "identifier" or (node.type == "subscript_expression" and view.space(node) == "local")


def _exchanged(view: View, inside: list[Node], both: set[str], value: Node) -> str:
    """The type of the two values that these statements exchange; "" where they do anything else."""
    if len(inside) == 1 and inside[0].type == "expression_statement":
        call = inside[0].named_children[0]
        function = call.child_by_field_name("function") if call.type == "call_expression" else None
        given = field(call, "arguments").named_children if function is not None else []
        if function is None or view.code(function) not in _SWAPS:
            return ""
        if {squeezed(view.code(n)) for n in given} != both:
            return ""
        return view.element(value) if value.type == "subscript_expression" else ""
    declared = plainly_declared_in(view, inside[0]) if len(inside) == 3 else []
    if len(declared) != 1 or declared[0].value is None or declared[0].stars or "auto" in declared[0].type:
        return ""
    kept, name = squeezed(view.code(declared[0].value)), declared[0].name
    sets = [_set(view, n) for n in inside[1:]]
    other = next(iter(both - {kept}), "")
    kind = unqualified(declared[0].type)
    alike = _type(view, value) in ("", kind)
    return kind if alike and kept in both and sets == [(kept, other), (other, name)] else ""


def _type(view: View, value: Node) -> str:
    """The type of a variable or an element; "" where the file does not tell."""
    if value.type == "subscript_expression":
        return view.concrete(view.element(value))
    binding = view.expanded.constants.binding(view.code(value), value.start_byte)
    return unqualified(written_before(view.tree, binding).strip()) if binding is not None else ""


def _set(view: View, node: Node) -> tuple[str, str] | None:
    whole = node.named_children[0] if node.type == "expression_statement" else node
    if whole.type != "assignment_expression" or field(whole, "operator").type != "=":
        return None
    return squeezed(view.code(field(whole, "left"))), squeezed(view.code(field(whole, "right")))


REWRITE = Rewrite(
    slug="exchange-by-minimum",
    title="Order two values by minimum and maximum",
    apply=refusing(_apply),
    answers=("warp-divergence",),
    useless_at="dram",
    chance=0.5,
    gain=1.25,
)
