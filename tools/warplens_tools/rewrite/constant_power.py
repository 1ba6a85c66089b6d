# SPDX-License-Identifier: Apache-2.0
"""constant-power

Write powers with a constant exponent as products and roots.

`powf` works for every exponent, through a logarithm and an exponential with corrections: some fifty instructions,
in double some two hundred. A square is one multiplication, a power of -1.5 a reciprocal root and two of them.

```cuda
__global__ void energy(float* out, const float* v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float x = v[i];
    out[i] = 0.5f * powf(x, 2.0f) + pow(x + 1.0f, 3) - powf(x, 0.5f);
  }
}
```

```cuda
__global__ void energy(float* out, const float* v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float x = v[i];
    out[i] = 0.5f * (x * x) + ((x + 1.0f) * (x + 1.0f) * (x + 1.0f)) - sqrtf(x);
  }
}
```

Exponents are the whole numbers from -12 to 12, and up to 4 their halves. What is computed for a fifth power or a higher
one gets a variable. Left alone: a base that is not the same when it is
computed twice (a call, `i++`), an integer, or of unknown type.
"""

from __future__ import annotations

from fractions import Fraction

from tree_sitter import Node

from warplens_tools.cuda.facts.own_names import is_own
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.insertion import insert_before
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    calls,
    field,
    operator_of,
    refusing,
    unwrapped,
)
from warplens_tools.rewrite.common.style import Style
from warplens_tools.text import TextEdit

CAVEAT = "results may differ in the last digits, and what was computed in double because of an integer becomes float"
_POWERS = frozenset({"pow", "powf", "__powf", "std::pow", "::pow"})
#: What is not the same when it is computed twice.
_CHANGING = frozenset({"call_expression", "update_expression", "assignment_expression"})
_SIMPLE = frozenset({"identifier", "subscript_expression", "field_expression", "parenthesized_expression"})
#: The largest exponent of what is no variable, and of a half; the largest of a variable.
_MOST, _MOST_OF_NAMES = 4, 12
_MAY_BE_LEFT_OUT = frozenset({"conditional_expression", "lambda_expression"})


def _apply(view: View, target: Target) -> RewriteResult:
    types, style = TypeReader(view.forms, view.pointers), Style(view)
    edits, last = list[TextEdit](), -1
    for name, call in calls(view.body, view):
        is_wanted = not target.lines or view.span(call).line in target.lines
        if name not in _POWERS or not is_wanted or call.start_byte < last or not view.is_plain_enough(call):
            continue
        if is_own(view.expanded, name.rsplit(":", 1)[-1], call):
            continue
        written, declared = _product(view, types, style, call)
        if written:
            edits += [*([declared] if declared else []), TextEdit(view.span(call), written)]
            last = call.end_byte
    if not edits:
        raise Refused("no power here has a constant exponent and a base of a known type")
    return RewriteResult(tuple(edits), title="Products and roots instead of a power", caveat=CAVEAT)


def _product(view: View, types: TypeReader, style: Style, call: Node) -> tuple[str, TextEdit | None]:
    """The call as a product, "" where it stays, and what declares its factor, where that needs a name."""
    given = field(call, "arguments").named_children
    if len(given) != 2 or any(n.type in _CHANGING for n in walk(given[0])):
        return "", None
    exponent, kind = _number(view, given[1]), types.type(given[0])
    if exponent is None or kind not in ("float", "double") or exponent == 0:
        return "", None
    base, declared = view.written(given[0]), None
    factor = base if given[0].type in _SIMPLE else f"({base})"
    if abs(exponent) > _MOST:
        if exponent.denominator > 1 or abs(exponent) > _MOST_OF_NAMES:
            return "", None
        if given[0].type != "identifier":
            factor = style.local("base")
            declared = _declared(view, call, given[0], f"const {kind} {factor} = {base};")
            if declared is None:
                return "", None
    return _written(factor, base, exponent, "f" if kind == "float" else ""), declared


def _declared(view: View, call: Node, base: Node, line: str) -> TextEdit | None:
    """The edit that declares a factor before the statement of its power; None where that may be another value there."""
    node = call
    while node.parent is not None and not node.type.endswith(("statement", "declaration")):
        parent = node.parent
        skipped = operator_of(parent) in ("&&", "||") and field(parent, "right").id == node.id
        if skipped or parent.type in _MAY_BE_LEFT_OUT:
            return None
        node = parent
    if node.type not in ("declaration", "expression_statement", "return_statement"):
        return None
    changed = {name for name, _ in assigned(node, view)}
    early = {d.name for d in declared_in(view, node)} if node.type == "declaration" else set[str]()
    return None if view.names(base) & (changed | early) else insert_before(view.tree, node, line)


def _written(factor: str, base: str, exponent: Fraction, suffix: str) -> str:
    whole, half = divmod(abs(exponent), 1)
    factors = [factor] * int(whole)
    if exponent < 0 and half:
        # x^-1.5 is rsqrt(x) / x
        root = f"rsqrt{suffix}({base})"
        return (
            f"({root} / ({' * '.join(factors)}))"
            if len(factors) > 1
            else f"({root} / {factor})"
            if factors
            else root
        )
    if half:
        factors.append(f"sqrt{suffix}({base})")
    product = " * ".join(factors)
    if exponent < 0:
        divisor = product if len(factors) == 1 else f"({product})"
        return f"(1.0{suffix} / {divisor})"
    return product if len(factors) == 1 else f"({product})"


def _number(view: View, node: Node) -> Fraction | None:
    """The exponent, where it is written as a multiple of a half."""
    code = view.code(unwrapped(node)).replace(" ", "").rstrip("fF")
    try:
        value = Fraction(code)
    except (ValueError, ZeroDivisionError):
        return None
    return value if value.denominator in (1, 2) else None


REWRITE = Rewrite(
    slug="constant-power",
    title="Products and roots instead of a power",
    apply=refusing(_apply),
    answers=("constant-power", "sfu-bound", "double-in-float-kernel"),
    useless_at="dram",
    chance=0.5,
    gain=1.2,
    spares=True,
)
