# SPDX-License-Identifier: Apache-2.0
"""constant-base

Write powers of 2 and of 10 as the exponential function of that base.

`powf` serves every base: a logarithm and an exponential in extended precision, of which some fifty instructions stay
where the base is known, in double two hundred. `exp2f` is half a dozen, `exp10f` a dozen, both with
an error bound that is no larger (CUDA C++ Programming Guide, "Mathematical Functions").

```cuda
__global__ void gain(float* out, const float* decibels, const float* octaves, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = powf(10.0f, decibels[i] / 20.0f) * pow(2.0f, octaves[i]);
}
```

```cuda
__global__ void gain(float* out, const float* decibels, const float* octaves, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = exp10f(decibels[i] / 20.0f) * exp2f(octaves[i]);
}
```

What was computed in double stays so: `pow(2, n)` of an integer becomes `exp2((double)n)`. Left alone: other bases, a
base that is no literal, `pow` of an exponent whose type is not known, and functions of the file that have these names.
"""

from __future__ import annotations

from warplens_tools.cuda.facts.constant_bases import BasePower, base_powers
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.reading import View, refusing
from warplens_tools.text import Span, TextEdit

_SIMPLE = frozenset({"identifier", "subscript_expression", "field_expression", "parenthesized_expression"})


def _apply(view: View, target: Target) -> RewriteResult:
    edits: list[TextEdit] = []
    for power in base_powers(view.expanded, view.kernel):
        is_wanted = not target.lines or view.span(power.call).line in target.lines
        if is_wanted and _is_written_out(view, power):
            edits += _edits(view, power)
    if not edits:
        raise Refused("no power here has the base 2 or 10 and an exponent of a known type")
    return RewriteResult(
        tuple(edits),
        title="Exponential of base 2 or 10 instead of a power",
        caveat="results may differ in the last digits",
    )


def _is_written_out(view: View, power: BasePower) -> bool:
    """Whether no macro writes the call, or its base and exponent together."""
    apart = view.end(power.base) <= view.start(power.exponent) and view.end(power.exponent) < view.end(
        power.call
    )
    return apart and view.is_plain_enough(power.call)


def _edits(view: View, power: BasePower) -> list[TextEdit]:
    """What stands before the exponent, and after it where it is converted: the exponent may hold edits of its own."""
    call, exponent = view.span(power.call), view.span(power.exponent)
    wrapped = power.converts and power.exponent.type not in _SIMPLE
    opened = f"{power.function}(" + ("(double)" if power.converts else "") + ("(" if wrapped else "")
    before = Span(call.line, call.column, exponent.line, exponent.column)
    after = Span(exponent.end_line, exponent.end_column, call.end_line, call.end_column)
    return [TextEdit(before, opened), *([TextEdit(after, "))")] if wrapped else [])]


REWRITE = Rewrite(
    slug="constant-base",
    title="Exponential of base 2 or 10 instead of a power",
    apply=refusing(_apply),
    answers=("constant-base", "sfu-bound", "double-in-float-kernel"),
    useless_at="dram",
    chance=0.5,
    gain=1.2,
    spares=True,
)
