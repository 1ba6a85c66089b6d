# SPDX-License-Identifier: Apache-2.0
"""full-divisions

**What.** Floating-point divisions and square roots in full precision are a large part of what a kernel executes.

**Why it costs.** The card divides in software: a division in double is a reciprocal estimate, some ten dependent
instructions of the FP64 pipe and a branch to a slow path; a square root is as long, in float they are about eight.
A multiplication is one instruction. Their chains are serial besides, so that they are latency where few warps run.

**Wrong**

```cuda
out[i] = c * ((u[i + 1] - 2.0 * u[i] + u[i - 1]) / dx2 + (u[i + n] - 2.0 * u[i] + u[i - n]) / dy2);
```

**Right**

```cuda
// the host passes rx2 = 1.0 / dx2 and ry2 = 1.0 / dy2
out[i] = c * ((u[i + 1] - 2.0 * u[i] + u[i - 1]) * rx2 + (u[i + n] - 2.0 * u[i] + u[i - n]) * ry2);
```

**Evidence.** SASS: the reciprocal and root estimates in double (`MUFU.RCP64H`, `MUFU.RSQ64H`) and the tests that begin
a division in float (`FCHK`), as often as they run; in the source, divisors that are the same for all threads.

**Threshold.** Two of them, and a fifth of the executed instructions with about ten (double) or eight (float) each,
a third where all are of floats; where double-in-float-kernel and invariant-division say nothing. It is information:
whether memory hides them is said by the kernel's class.

**References.** CUDA C++ Programming Guide, "Arithmetic Instructions"; CUDA C++ Best Practices Guide, "Other Arithmetic
Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from warplens_tools.evidence import Instruction, Observation
from warplens_tools.finding import Finding, count
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.double_in_float_kernel import DoubleInFloatKernel
from warplens_tools.micro.invariant_division import InvariantDivision

#: Instructions of one, beside its slow path (nvdisasm of sm_90), and the share of all from which they are told.
DOUBLE, FLOAT, SHARE = 10.0, 8.0, 0.2
#: The same where all are of floats, which memory hides more often.
MUCH = 0.35
_FEWEST = 2
_DIVISOR = re.compile(r"/\s*\(?\s*([A-Za-z_]\w*)\b(?!\s*[\[(.]|\s*->)")


class FullDivisions(MicroTool):
    """Divisions and roots in full precision take a large part of a kernel."""

    code = "WL314"
    slug = "full-divisions"
    title = "Divisions and roots in full precision take a large part of the kernel"
    avoid = "Do not divide by less precise means where the comparison of results does not allow it."
    rule_words = "FP64|XU|pipeline is the highest"
    tiers = ("binary",)
    relevant = ("compute", "latency", "memory")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose divisions weigh most."""
        weights = self.sass.weights if self.sass else ()
        # A routine for odd operands divides too, and hardly ever runs.
        double = [i for i in self.sass.where(_begins_double) if weights[i] >= 1.0]
        single = [i for i in self.sass.where(lambda x: x.opcode == "FCHK") if weights[i] >= 1.0]
        found = [*double, *single]
        if len(found) < _FEWEST:
            return
        every = self.sass.weigh(range(len(self.sass.instructions)))
        own = DOUBLE * self.sass.weigh(double) + FLOAT * self.sass.weigh(single)
        if own < (SHARE if double else MUCH) * every or self._is_told(double):
            return
        place = self.hottest_place(found)
        same = self._same_for_all(place.line)
        kind = "double" if len(double) >= len(single) else "float"
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="medium",
            message=(
                f"{count(len(found), 'division or square root', 'divisions or square roots')} in full precision "
                f"({kind}{self.written_in(found)}), about {DOUBLE if kind == 'double' else FLOAT:.0f} instructions "
                f"each: {min(own / every, 1.0):.0%} of what the kernel executes."
            ),
            guidance=(
                f"{', '.join(same)} is the same for all threads: pass its reciprocal and multiply."
                if same
                else "Work out the reciprocal of a divisor that serves several quotients once and multiply; combine "
                "quotients over one denominator; 1/sqrt is rsqrt."
            )
            + (
                " Where the digits allow, float does it at a fraction."
                if kind == "double"
                else " __fdividef, __frcp_rn or __frsqrt_rn take fewer instructions where the digits allow."
            ),
            evidence=self._seen(double, single, own / every),
        )

    def _is_told(self, double: Sequence[int]) -> bool:
        """Whether another check says that they can be left out."""
        others = (InvariantDivision, DoubleInFloatKernel) if double else (InvariantDivision,)
        return any(tool.told(self.view) for tool in others)

    def _seen(self, double: Sequence[int], single: Sequence[int], share: float) -> tuple[Observation, ...]:
        return (
            self.view.observe("divisions and roots in double", float(len(double))),
            self.view.observe("divisions in float", float(len(single))),
            self.view.observe(
                "their share of the executed instructions", round(min(share, 1.0), 2), "", SHARE
            ),
        )

    def _same_for_all(self, line: int | None) -> list[str]:
        """Divisors of a line that are parameters of the kernel."""
        passed = {p.name for p in self.view.kernel.parameters if not p.pointer}
        written = _DIVISOR.findall(self.view.text.line_text(line)) if line is not None else []
        return list(dict.fromkeys(name for name in written if name in passed))


def _begins_double(instruction: Instruction) -> bool:
    return instruction.opcode == "MUFU" and any(m in ("RCP64H", "RSQ64H") for m in instruction.modifiers)
