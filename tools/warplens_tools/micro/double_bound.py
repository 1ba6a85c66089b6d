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

**Threshold.** The longest of the pipes, with eight instructions in loops or more; where double-in-float-kernel and
full-divisions say nothing. It is information: which digits are wanted is the user's.

**References.** CUDA C++ Programming Guide, "Arithmetic Instructions" (throughput table).
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.double_in_float_kernel import DoubleInFloatKernel, is_double
from warplens_tools.micro.full_divisions import FullDivisions

#: Double instructions in loops from which they are arithmetic, no index or factor.
FEWEST = 8
_OTHERS = (DoubleInFloatKernel, FullDivisions)


class DoubleBound(MicroTool):
    """The FP64 pipe is busy longest."""

    code = "WL315"
    slug = "double-bound"
    title = "Double arithmetic is what the kernel's instructions need longest"
    rule_words = "FP64|pipeline is the highest"
    tiers = ("binary",)
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose double arithmetic weighs most."""
        cycles = self.sass.cycles if self.sass else {}
        own, rest = cycles.get("fp64", 0.0), max((v for k, v in cycles.items() if k != "fp64"), default=0.0)
        found = [i for i in self.sass.where(is_double) if self.sass.flow.depths[i]] if own > rest else []
        if len(found) < FEWEST or any(tool.told(self.view) for tool in _OTHERS):
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
