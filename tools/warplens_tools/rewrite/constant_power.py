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

Exponents are the whole numbers from -4 to 4 and their halves. Left alone: a base that is not the same when it is
computed twice (a call, `i++`), an integer, or of unknown type.
"""

from __future__ import annotations

from fractions import Fraction

from tree_sitter import Node

from warplens_tools.cuda.facts.own_names import is_own
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import View, calls, field, refusing, unwrapped
from warplens_tools.text import TextEdit

CAVEAT = "results may differ in the last digits, and what was computed in double because of an integer becomes float"
_POWERS = frozenset({"pow", "powf", "__powf", "std::pow", "::pow"})
#: What is not the same when it is computed twice.
_CHANGING = frozenset({"call_expression", "update_expression", "assignment_expression"})
_SIMPLE = frozenset({"identifier", "subscript_expression", "field_expression", "parenthesized_expression"})
_MOST = 4


def _apply(view: View, target: Target) -> RewriteResult:
    types = TypeReader(view.forms, view.pointers)
    edits, last = [], -1
    for name, call in calls(view.body, view):
        is_wanted = not target.lines or view.span(call).line in target.lines
        if name not in _POWERS or not is_wanted or call.start_byte < last or not view.is_plain_enough(call):
            continue
        if is_own(view.expanded, name.rsplit(":", 1)[-1], call):
            continue
        written = _product(view, types, call)
        if written:
            edits.append(TextEdit(view.span(call), written))
            last = call.end_byte
    if not edits:
        raise Refused("no power here has a constant exponent and a base of a known type")
    return RewriteResult(tuple(edits), title="Products and roots instead of a power", caveat=CAVEAT)


def _product(view: View, types: TypeReader, call: Node) -> str:
    """The call as a product; "" where it stays."""
    given = field(call, "arguments").named_children
    if len(given) != 2 or any(n.type in _CHANGING for n in walk(given[0])):
        return ""
    exponent, kind = _number(view, given[1]), types.type(given[0])
    if exponent is None or kind not in ("float", "double") or abs(exponent) > _MOST or exponent == 0:
        return ""
    base = view.written(given[0])
    factor = base if given[0].type in _SIMPLE else f"({base})"
    return _written(factor, view.written(given[0]), exponent, "f" if kind == "float" else "")


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
)
