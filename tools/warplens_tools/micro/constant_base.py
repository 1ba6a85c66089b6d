# SPDX-License-Identifier: Apache-2.0
"""constant-base

**What.** `powf` or `pow` raises the constant 2 or 10 to a power that is known only at run time.

**Why it costs.** The function serves every base: a logarithm and an exponential in extended precision. Where the base
is known, some fifty instructions of it stay, in double two hundred. `exp2f` is half a dozen, `exp10f` a dozen.

**Wrong**

```cuda
out[i] = in[i] * powf(10.0f, decibels / 20.0f);
level = pow(2.0f, octave);
```

**Right**

```cuda
out[i] = in[i] * exp10f(decibels / 20.0f);
level = exp2f(octave);
```

**Evidence.** The call and its base in the source; where SASS is at hand, the arithmetic and branches on its line,
weighed by their loops, against the cycles of every pipe and of memory.

**Threshold.** Twenty instructions on the line, and as many for each that the special-function unit takes: a power that
`-use_fast_math` made an exponential is silent. Below a gain of a tenth in the bounded model it is information. The gain
leaves the exponential its share of them: 6 of 54 and 12 of 57 in float, a third in double (nvcc 13.0, sm_90).

**References.** CUDA C++ Best Practices Guide, "Math Libraries".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.constant_bases import BasePower, base_powers
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.finding import Finding
from warplens_tools.machine.gain import evenly, removal_gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_arithmetic
from warplens_tools.rewrite.constant_base import REWRITE
from warplens_tools.sass.pipes import pipe_of

#: Instructions on a line from which the function was called.
CALLED = 20
#: The share of its instructions that what takes its place needs: 6 of 54, 12 of 57, 66 of 203, 71 of 201 (nvcc 13.0 for
#: sm_90).
LEFT = {"exp2f": 0.11, "exp10f": 0.21, "exp2": 0.33, "exp10": 0.35}
_OTHERS = frozenset({"lsu", "uniform", "tensor", "other"})


class ConstantBase(MicroTool):
    """Powers of 2 and of 10."""

    code = "WL312"
    slug = "constant-base"
    title = "A power of 2 or 10 goes through the general power"
    avoid = (
        "Do not replace a power whose base the text does not fix as 2 or 10; do not call the float function "
        "where the power was computed in double."
    )
    rule_words = "XU|transcendental|FP64|pipeline is the highest"
    tiers = ("source", "binary")
    relevant = ("compute", "latency")
    family = "functions in full precision"
    judges = (judge_by_arithmetic,)

    def check(self) -> Iterator[Finding]:
        """One finding per line with such calls, on the first of them."""
        expanded = kernel_tree(self.view.tree, self.view.kernel)
        if expanded is None:
            return
        on_line: dict[int, list[BasePower]] = {}
        for power in base_powers(expanded, self.view.kernel):
            on_line.setdefault(expanded.tree.span(power.call).line, []).append(power)
        for line, powers in on_line.items():
            here = self._instructions(line)
            if self.sass and len(here) < CALLED * max(1, len(self._special(line))):
                continue
            spared = evenly(here, 1.0 - LEFT[powers[0].function])
            gain = removal_gain(self.sass, spared, self.view.traffic.cycles())
            worth = gain is not None and gain.estimate >= self.worth
            said = " ".join(self.view.said(expanded.tree.span(powers[0].call)).split())
            seen = self.view.observe("powers of 2 and 10 on the line", float(len(powers)), tier="source")
            counted = self.view.observe(
                "instructions of arithmetic and branches on the line", float(len(here)), "", float(CALLED)
            )
            yield self.finding(
                expanded.tree.span(powers[0].call),
                severity="warning" if worth else "information",
                confidence="medium",
                message=f"{said} goes through the general power{self._cost(here)}.",
                guidance=f"Call {powers[0].function} with the exponent alone.",
                evidence=(seen, counted) if self.sass else (seen,),
                gain=gain,
                fixes=self.fixes_of(REWRITE, lines=(line,)),
            )

    def _cost(self, here: list[int]) -> str:
        return f": {len(here)} instructions on its line" if here else ""

    def _instructions(self, line: int) -> list[int]:
        """Arithmetic and branches of a line without what only odd arguments take."""
        return self.sass.usual_on(line, lambda x: pipe_of(x) not in _OTHERS)

    def _special(self, line: int) -> list[int]:
        return self.sass.on_line(line, lambda x: x.opcode == "MUFU")
