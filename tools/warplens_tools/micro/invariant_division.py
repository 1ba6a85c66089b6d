# SPDX-License-Identifier: Apache-2.0
"""invariant-division

**What.** A loop divides floating-point numbers by a value that does not change in the loop.

**Why it costs.** A division in full precision is about ten instructions and a branch to a slow path; a
multiplication by the reciprocal is one. The compiler may not make the one from the other, since the last bit can
differ.

**Wrong**

```cuda
for (int k = 0; k < n; ++k)
    sum += x[k] / scale;
```

**Right**

```cuda
const float inverse = 1.0f / scale;        // once
for (int k = 0; k < n; ++k)
    sum += x[k] * inverse;                 // may differ in the last bit
```

**Evidence.** The division in the source and what its divisor hangs on; in SASS, the test that begins a division in full
precision (`FCHK`, or `MUFU.RCP64H` in double) inside the loop, against the cycles of every pipe and of memory.

**Threshold.** A tenth of the kernel's time in the bounded model. With `-use_fast_math` or `__fdividef` it is silent.

**References.** CUDA C++ Best Practices Guide, "Division Modulo Operations", "Other Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Iterator

from warplens_tools.cuda.facts.divisions import invariant_divisions
from warplens_tools.finding import Finding
from warplens_tools.machine.gain import removal_gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_arithmetic
from warplens_tools.sass.pipes import pipe_of

#: Multiply-adds of a division beside its test, reciprocal and branch, by the pipe they run on (nvdisasm of sm_90).
_STEPS = {"fp32": 6, "fp64": 8}


class InvariantDivision(MicroTool):
    """Floating-point division by what the loop does not change."""

    code = "WL308"
    slug = "invariant-division"
    title = "Division by a loop-invariant value"
    avoid = (
        "Do not multiply by a reciprocal where the comparison of results allows no other rounding; do not "
        "hoist a division that may be by zero."
    )
    rule_words = "XU|FP64|pipeline is the highest"
    tiers = ("binary",)
    relevant = ("compute", "latency")
    judges = (judge_by_arithmetic,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose divisions weigh most."""
        if not self.sass:
            return
        found = [
            (self.sass.weigh(frozenset(here)), division, here)
            for division in invariant_divisions(self.view.tree, self.view.kernel)
            if (here := self._instructions(division.line))
        ]
        if not found:
            return
        every = {i for _, _, here in found for i in here}
        gain = removal_gain(self.sass, every, self.view.traffic.cycles())
        if gain is None or gain.estimate < self.worth:
            return
        _, worst, here = max(found, key=lambda each: each[0])
        times = sum(self._begins(i) for i in here)
        yield self.finding(
            worst.span,
            confidence="medium",
            message=(
                f"Division by {worst.divisor}, which the loop does not change: about {len(here) // times} "
                "instructions each time, where a multiplication by its reciprocal is one."
            ),
            guidance=(
                f"Compute 1 / {worst.divisor} once before the loop and multiply by it; the last bit of a quotient may "
                "differ."
            ),
            evidence=(
                self.view.observe("divisions by a loop-invariant value", float(len(found)), tier="source"),
                self.view.observe("instructions of the divisions in loops", float(len(every))),
            ),
            gain=gain,
        )

    def _instructions(self, line: int) -> list[int]:
        """What of a line's instructions in loops goes with its divisions; empty where none divides "
        "in full precision."""
        code, every = self.sass.instructions, self.sass.on_line(line, lambda _: True)
        # A loop that the compiler unrolled to the end divides several times outside of loops.
        here = [i for i in every if self.sass.flow.depths[i]] or every
        begins = [i for i in here if self._begins(i)]
        tests = [i for i in begins if code[i].opcode == "FCHK"]
        double = [i for i in begins if code[i].opcode == "MUFU"]
        pipe, count = ("fp32", len(tests)) if tests else ("fp64", len(double))
        if not count or (count < 2 and not self.sass.flow.depths[here[0]]):
            return []
        steps = [i for i in here if pipe_of(code[i]) == pipe and code[i].opcode in ("FFMA", "DFMA", "FMUL")]
        rest = [i for i in here if code[i].opcode in ("MUFU", "BRA", "CALL", "BSSY", "BSYNC")]
        return [*tests, *double, *steps[: count * _STEPS[pipe]], *rest[: count * 4]]

    def _begins(self, index: int) -> bool:
        """Whether a division in full precision begins with the instruction."""
        x = self.sass.instructions[index]
        return x.opcode == "FCHK" or (x.opcode == "MUFU" and "RCP64H" in x.modifiers)
