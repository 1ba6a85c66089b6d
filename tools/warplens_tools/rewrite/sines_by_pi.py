# SPDX-License-Identifier: Apache-2.0
"""sines-by-pi

Take sines of multiples of π by the functions that are given the multiple.

Random numbers by Box and Muller, Fourier sums and windows take sines of `2 * π * turns`. `sinf` then finds out again
how many turns that is, for large angles in a loop of its own over a table in local memory; `sinpif` is given them, and
needs neither the product nor the search. It is more exact, too.

```cuda
__global__ void phases(const float* turns, float* re, float* im, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float angle = 2.0f * 3.14159265f * turns[i];
    re[i] = cosf(angle);
    im[i] = sinf(3.14159265f * turns[i]);
  }
}
```

```cuda
__global__ void phases(const float* turns, float* re, float* im, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float angle = 2.0f * turns[i];
    re[i] = cospif(angle);
    im[i] = sinpif(1.0f * turns[i]);
  }
}
```

`sincosf` is taken as well, and all of these of double. Left alone: angles that are used for more than sines, and π
that no literal spells.
"""

from __future__ import annotations

import math
import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import plainly_declared_in
from warplens_tools.rewrite.common.reading import View, calls, field, operator_of, refusing, unwrapped
from warplens_tools.text import TextEdit

_SINES = {"sin": "sinpi", "cos": "cospi", "sincos": "sincospi"}
_SINES |= {f"{plain}f": f"{new}f" for plain, new in _SINES.items()}
#: Constants of the headers.
_NAMED = {
    "M_PI": f"{math.pi}",
    "CUDART_PI": f"{math.pi}",
    "CUDART_PI_F": f"{math.pi}f",
    "M_PIf": f"{math.pi}f",
}
#: How far a literal may be off: that of a float with seven digits.
_OFF = 2e-7


def _apply(view: View, target: Target) -> RewriteResult:
    groups, literals = dict[int, list[tuple[Node, str]]](), dict[int, tuple[Node, str]]()
    for name, call in calls(view.body, view):
        new = _SINES.get(name.split("::")[-1])
        angle = unwrapped(field(call, "arguments").named_children[0]) if new is not None else call
        product = angle if angle.type != "identifier" else _angle(view, angle)
        pi = _pi(view, product) if new is not None and product is not None else None
        if new is None or pi is None:
            continue
        # `std::sin` of a float is one
        short = "f" if "::" in name and pi[1].endswith(("f", "F")) and not new.endswith("f") else ""
        groups.setdefault(pi[0].id, []).append((field(call, "function"), f"{new}{short}"))
        literals[pi[0].id] = pi
    edits = list[TextEdit]()
    for key, functions in groups.items():
        lines = {view.span(function).line for function, _ in functions}
        if (target.lines and not lines & set(target.lines)) or not all(
            view.is_plain(f) for f, _ in functions
        ):
            continue
        edits += [TextEdit(view.span(node), new) for node, new in (literals[key], *functions)]
    if not edits:
        raise Refused("no sine is taken of a multiple of pi")
    return RewriteResult(
        tuple(edits), title="Take sines by multiples of pi", caveat="results may differ in the last digit"
    )


def _angle(view: View, name: Node) -> Node | None:
    """What a variable that only sines are taken of is initialised with."""
    binding = view.expanded.constants.binding(view.code(name), name.start_byte)
    if binding is None:
        return None
    for node in walk(view.body):
        if node.type != "declaration":
            continue
        for one in plainly_declared_in(view, node):
            mine = one.name == binding.name and node.start_byte <= binding.declaration[0] < node.end_byte
            if mine and one.value is not None and _only_of_sines(view, binding, one.value):
                return unwrapped(one.value)
    return None


def _only_of_sines(view: View, binding: Binding, value: Node) -> bool:
    for node in walk(view.body):
        if node.type != "identifier" or view.code(node) != binding.name or node.start_byte < value.end_byte:
            continue
        found = view.expanded.constants.binding(binding.name, node.start_byte)
        if found is None or found.declaration != binding.declaration:
            continue
        listed = node.parent
        call = listed.parent if listed is not None and listed.type == "argument_list" else None
        function = call.child_by_field_name("function") if call is not None else None
        first = listed is not None and listed.named_children[0].id == node.id
        if function is None or not first or view.code(function).split("::")[-1] not in _SINES:
            return False
    return True


def _pi(view: View, product: Node) -> tuple[Node, str] | None:
    """The literal of π in a product, or its product with another one, and what is left of that without π."""
    node, found = product, list[Node]()
    stack = [node]
    while stack:
        one = unwrapped(stack.pop())
        if one.type == "unary_expression" and operator_of(one) == "-":
            stack.append(field(one, "argument"))
        elif one.type == "binary_expression" and operator_of(one) == "*":
            stack += [field(one, "left"), field(one, "right")]
        elif one.type == "binary_expression" and operator_of(one) == "/":
            stack.append(field(one, "left"))
        elif one.type == "number_literal" or view.code(one) in _NAMED:
            found.append(one)
    for one in found:
        code = _NAMED.get(view.code(one), view.code(one))
        times = _multiple(code)
        if times is None or not _stands_alone(view, one):
            continue
        suffix = "f" if code[-1] in "fF" else ""
        outer = one.parent
        if outer is not None and outer.type == "binary_expression" and operator_of(outer) == "*":
            sides = [unwrapped(field(outer, side)) for side in ("left", "right")]
            other = sides[0] if sides[1].id == one.id else sides[1]
            if (
                other.type == "number_literal"
                and times == 1
                and "." in view.code(other)
                and view.is_plain(other)
            ):
                return outer, view.written(other)
        return one, f"{times}.0{suffix}"
    return None


def _stands_alone(view: View, node: Node) -> bool:
    """Whether a literal is written where it stands, or by a macro of its own."""
    written = view.written(node)
    macro = view.file.macros.get(written) if written.isidentifier() else None
    alone = macro is not None and macro.parameters is None and macro.body.strip(" ()") == view.code(node)
    return view.is_plain(node) or alone


def _multiple(code: str) -> int | None:
    """1, 2 or 4 of a literal that is so many times π."""
    literal = re.fullmatch(r"(\d+\.\d*)[fF]?", code)
    value = float(literal[1]) if literal is not None else 0.0
    return next((n for n in (1, 2, 4) if math.isclose(value, n * math.pi, rel_tol=_OFF)), None)


REWRITE = Rewrite(
    slug="sines-by-pi",
    title="Take sines of multiples of pi by their multiples",
    apply=refusing(_apply),
    answers=("sfu-bound",),
    useless_at="dram",
    chance=0.5,
    gain=1.3,
)
