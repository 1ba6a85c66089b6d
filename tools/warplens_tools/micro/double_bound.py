# SPDX-License-Identifier: Apache-2.0
"""double-bound

**What.** Arithmetic in double needs its pipe longer than the kernel's instructions need any other.

**Why it costs.** Data-centre GPUs do double at half the rate of float, and each conversion to or from it takes a slot
of a unit at a quarter of that or less; other cards do it at 1/64. Until the double instructions are fewer, nothing else
that is made better shows.

**Wrong**

```cuda
for (int k = 0; k < taps; ++k)
    sum += (double)bytes[i - k] * coefficient[k];      // bytes and taps of few digits
```

**Right**

```cuda
for (int k = 0; k < taps; ++k)
    sum += (float)bytes[i - k] * coefficient[k];       // float, or double for the last sum alone
```

**Evidence.** SASS: cycles of the FP64 pipe, weighed by loops, against those of every other pipe.

**Threshold.** The longest of the pipes, with eight instructions in loops or more, and 0.6 of the time that all take to
be issued; where double-in-float-kernel and
full-divisions say nothing. In a kernel without loops that calls functions in double: 40 double instructions, three
of ten that a thread executes. It is information: which digits are wanted is the user's.

**References.** CUDA C++ Programming Guide, "Arithmetic Instructions" (throughput table).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.double_in_float_kernel import DoubleInFloatKernel, is_double
from warplens_tools.micro.full_divisions import FullDivisions

#: Double instructions in loops from which they are arithmetic, no index or factor.
FEWEST = 8
#: Share of the time of instruction issue from which the FP64 pipe binds a loop; what it is not held against.
ISSUED, _OTHERS_OF = 0.6, frozenset({"fp64", "issue"})
#: The same in a kernel without loops that calls functions in double, and their share of what a thread executes.
MANY, SHARE = 40, 0.3
_FUNCTIONS = re.compile(
    r"(?<![\w.>])(?:std::)?(sin|cos|sincos|tan|asin|acos|atan2?|sinh|cosh|tanh|exp2?|exp10|expm1|log|log2|log10|log1p|pow"
    r"|cbrt|erfc?|tgamma|lgamma|sinpi|cospi)\s*\("
)
_OTHERS = (DoubleInFloatKernel, FullDivisions)


class DoubleBound(MicroTool):
    """The FP64 pipe is busy longest."""

    code = "WL315"
    slug = "double-bound"
    title = "Double arithmetic is what the kernel's instructions need longest"
    avoid = "Do not lower the precision of results without leave."
    rule_words = "FP64|pipeline is the highest"
    tiers = ("binary",)
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose double arithmetic weighs most."""
        cycles = self.sass.cycles if self.sass else {}
        own, rest = (
            cycles.get("fp64", 0.0),
            max((v for k, v in cycles.items() if k not in _OTHERS_OF), default=0.0),
        )
        # What issues the instructions is busy with those of every pipe: where half of its time is theirs they bind.
        bound = own > rest and own > ISSUED * cycles.get("issue", 0.0)
        found = [i for i in self.sass.where(is_double) if self.sass.flow.depths[i]] if bound else []
        if any(tool.told(self.view) for tool in _OTHERS):
            return
        if len(found) < FEWEST:
            yield from self._functions()
            return
        converted = sum(self.sass.instructions[i].opcode in ("F2F", "I2F", "F2I", "FRND") for i in found)
        place = self.hottest_place(found)
        also = f", {converted} of them conversions" if converted else ""
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="medium",
            message=(
                f"FP64 bound{self.written_in(found)}: the loops hold {len(found)} double instructions{also}, whose "
                f"pipe they need {own / max(rest, 1e-9):.1f} times as long as any other."
            ),
            guidance=(
                "Where the data have fewer digits, compute in float and keep double for the last sum; take invariant "
                "products and conversions out of the loop; let what a thread converted serve several of its results."
            ),
            evidence=(
                self.view.observe("double instructions in loops", float(len(found)), "", float(FEWEST)),
                self.view.observe("FP64 pipe over the next one", round(own / max(rest, 1e-9), 2), "", 1.0),
            ),
        )

    def _functions(self) -> Iterator[Finding]:
        """Functions in double outside loops that are most of what a thread executes."""
        flow, code = self.sass.flow, self.sass.instructions
        usual = [i for i in range(len(code)) if i not in flow.rare] if self.sass else []
        if any(flow.depths[i] for i in usual):
            return
        own = [i for i in usual if is_double(code[i])]
        names = dict.fromkeys(name for name in _FUNCTIONS.findall(self.view.body))
        if not names or len(own) < MANY or len(own) < SHARE * len(usual):
            return
        place = self.hottest_place(own)
        said = ", ".join(names)
        both = " sincos() gives both of one argument;" if {"sin", "cos"} <= set(names) else ""
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="medium",
            message=(
                f"Functions in double ({said}){self.written_in(own)}: {len(own)} of the {len(usual)} instructions "
                "that a thread executes are double arithmetic."
            ),
            guidance=(
                f"Evaluate once what many threads or steps share (a table, an array filled before);{both} where "
                "few digits are wanted, reduce the argument in double and evaluate in float."
            ),
            evidence=(
                self.view.observe("double instructions of a thread", float(len(own)), "", float(MANY)),
                self.view.observe("their share", round(len(own) / len(usual), 2), "", SHARE),
            ),
        )
