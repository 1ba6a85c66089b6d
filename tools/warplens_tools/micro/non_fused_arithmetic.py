# SPDX-License-Identifier: Apache-2.0
"""non-fused-arithmetic

**What.** Multiplies and the additions of their results are kept apart, by `__fmul_rn`/`__fadd_rn` or by
`-fmad=false`, where one fused multiply-add would do both.

**Why it costs.** `FMUL` and `FADD` take a slot each, and their latencies add; `FFMA` takes one slot, and
rounds once.

**Wrong**

```cuda
y = __fadd_rn(__fmul_rn(y, x), c);     // two instructions per term
```

**Right**

```cuda
y = fmaf(y, x, c);                     // one
```

**Evidence.** `FADD` in SASS whose operand the last `FMUL` to that register made, and what keeps them apart: the
intrinsics on the line, or the flag of the unit's own compile command. Counters tell how busy arithmetic and
issue were, and what warps stalled on: they confirm the finding, bound its gain, or withdraw it.

**Threshold.** A tenth of the kernel's time in the bounded model. Results change in the last bit: where equal
results on the host are the purpose, suppress the finding.

**References.** CUDA C++ Programming Guide, "Intrinsic Functions"; NVIDIA, "Precision and Performance: Floating
Point and IEEE 754 Compliance for NVIDIA GPUs".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from warplens_tools.cuda.syntax.callees import called_code
from warplens_tools.evidence import BinaryEvidence, Instruction
from warplens_tools.finding import Finding
from warplens_tools.machine.gain import removal_gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_arithmetic

#: Addition to the multiply whose result it may take.
_MULTIPLIES = {"FADD": "FMUL", "DADD": "DMUL"}
_APART = re.compile(r"__[fd](?:mul|add|sub)_r[nzud]")
_REGISTER = re.compile(r"R\d+")


class NonFusedArithmetic(MicroTool):
    """Multiplies and additions are kept from fusing."""

    code = "WL304"
    slug = "non-fused-arithmetic"
    title = "Multiplies and additions are kept from fusing"
    avoid = "Do not add fast-math for the whole program."
    rule_words = "fused"
    tiers = ("binary",)
    relevant = ("compute", "latency")
    judges = (judge_by_arithmetic,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line with the most such pairs."""
        flagged = self.view.evidence.binary is not None and is_flagged(self.view.evidence.binary)
        written = self.sass.written
        pairs = [i for i in unfused(self.sass.instructions) if flagged or self._is_apart(written[i])]
        gain = removal_gain(self.sass, pairs, self.view.traffic.pessimistic_cycles) if pairs else None
        if gain is None or gain.estimate < self.worth:
            return
        place = self.hottest_place(pairs)
        why = "-fmad=false" if flagged else "the rounding intrinsics"
        yield self.finding(
            place.line,
            confidence="high",
            message=(
                f"{why} keep {len(pairs)} multiplies of {self.view.kernel.name} apart from the additions of their "
                "results: two instructions each instead of one fused multiply-add."
            ),
            guidance=(
                "Compile this unit without -fmad=false, or write fmaf where the last bit may differ."
                if flagged
                else "Write fmaf(a, b, c), or a * b + c, where results need not equal those of separate rounding."
            ),
            evidence=(
                self.view.observe("additions of a product in SASS", float(len(pairs)), "", 0.0),
                self.view.observe("kept apart by", why),
            ),
            gain=gain,
            related=place.related,
        )

    def _is_apart(self, line: int | None) -> bool:
        """Whether the statement on the line spells rounding intrinsics, or calls a function that does.

        A formatter may have broken the statement, and what was inlined does not always keep its own line.
        """
        if line is None:
            return False
        near = range(max(line - 1, 1), min(line + 1, self.view.text.line_count) + 1)
        if any(_APART.search(self.view.text.line_text(n)) for n in near):
            return True
        return bool(_APART.search(called_code(self.view.tree, self.view.text.line_text(line))))


def is_flagged(binary: BinaryEvidence) -> bool:
    """Whether the unit's own compile command forbids fusing."""
    flags = " ".join(binary.flags)
    return bool(re.search(r"-fmad[= ]false", flags))


def unfused(instructions: Sequence[Instruction]) -> list[int]:
    """Indices of additions that take the result of a multiply before them in the same straight code."""
    made: dict[str, str] = {}
    found = []
    for i, x in enumerate(instructions):
        if x.opcode in {"BRA", "BSYNC", "EXIT", "CALL", "RET"}:
            made.clear()
        used = {r for operand in x.operands[1:] for r in _REGISTER.findall(operand)}
        if any(made.get(r) == _MULTIPLIES.get(x.opcode, "-") for r in used):
            found.append(i)
        for r in _REGISTER.findall(x.operands[0]) if x.operands else ():
            made[r] = x.opcode
    return found
