# SPDX-License-Identifier: Apache-2.0
"""integer-division

**What.** A loop divides integers, or takes remainders, by a divisor that is known only at run time.

**Why it costs.** GPUs have no integer divider. The compiler computes a reciprocal in floating point and
corrects it: about 20 instructions for 32 bits, a call of about 70 for 64, where a constant divisor takes
a multiply and a shift, and a power of two a single mask.

**Wrong**

```cuda
for (int i = first; i < n; i += stride)
    sum += table[i % width];               // width is a kernel parameter
```

**Right**

```cuda
template <int width> __global__ void ...   // a constant; or carry the remainder along:
column += step; if (column >= width) column -= width;
```

**Evidence.** In SASS the conversion `I2F…RP` that a division by a value begins with, inline or in the routine for
64 bits that it calls, with the integer multiplies and corrections around it; in the source, the `/` or `%` with a
divisor that no constant fixes, in the kernel or in a function it calls; their share of the busiest pipe. Counters
tell how busy arithmetic and issue were, and what warps stalled on: they confirm the finding, bound its gain, or
withdraw it.

**Threshold.** A tenth of the kernel's time in the bounded model, memory traffic included: divisions that
hide behind memory are not reported. Where only accesses that the source does not tell could hide them, it is
information, from a gain of 1.5.

**References.** CUDA C++ Programming Guide, "Maximize Instruction Throughput" (integer arithmetic); CUDA C++
Best Practices Guide, "Division Modulo Operations"; CUTLASS `FastDivmod`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.cuda.facts.divisions import (
    Division,
    called_divisions,
    helper_divisions,
    runtime_divisions,
)
from warplens_tools.evidence import Instruction
from warplens_tools.finding import Finding, Gain, RelatedSpan
from warplens_tools.machine.counted import LEADING
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_arithmetic
from warplens_tools.sass.blocks import body_of
from warplens_tools.sass.pipes import pipe_of
from warplens_tools.text import Span

#: Executions of the routine for 64 bits per division that has a short path of 32 bits beside it: it is entered where a
#: high word is not zero, which nothing but the values decides. Without the short path every division enters it.
LONG_SHARE = 0.5
#: Instructions of a division by a constant over those of one by a variable (about 5 of 20).
CONSTANT_SHARE = 0.25


class Site(msgspec.Struct, frozen=True):
    """The divisions of one line."""

    #: The line that their instructions are written on.
    line: int
    indices: tuple[int, ...]
    #: Indices of the calls of the routine that divides 64-bit integers.
    calls: tuple[int, ...]


class IntegerDivision(MicroTool):
    """Integers are divided by a value known only at run time."""

    code = "WL303"
    slug = "integer-division"
    title = "Run-time integer division"
    rule_words = "ALU|integer|pipeline is the highest"
    tiers = ("binary",)
    relevant = ("compute", "latency", "memory")
    judges = (judge_by_arithmetic,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose divisions weigh most."""
        if not self.sass:
            return
        sites = self.division_sites()
        if not sites:
            return
        ratio, sure = self._ratio(sites)
        if ratio < (self.worth if sure else self.doubtful):
            return
        worst = max(sites, key=lambda s: self.sass.weigh((*s.indices, *s.calls)))
        found = self._written(worst)
        here = (
            found[0].span if len(found) == 1 else self.view.line_span(found[0].line if found else worst.line)
        )
        divisors = ", ".join(dict.fromkeys(d.divisor for d in found))
        by = f" by {divisors}" if divisors else ""
        count = len({i for s in sites for i in s.indices}) + len(self._routine(sites))
        yield self.finding(
            here,
            severity="warning" if sure else "information",
            confidence="low"
            if not sure
            else "high"
            if any(self.sass.flow.depths[i] for i in worst.indices)
            else "medium",
            message=(
                f"Run-time integer division{by} compiles to {count} instructions in {self.view.kernel.name}"
                f"{', a 64-bit routine among them' if worst.calls else ''}; a constant divisor takes about a quarter."
            ),
            guidance=(
                f"Make {divisors or 'the divisor'} a template parameter or a power of two (mask and shift), carry "
                "quotient and remainder along the loop by addition, or precompute a multiplier "
                + (
                    "and take the high half of a product, as __umul64hi gives it (Barrett reduction); where "
                    "both operands "
                    "fit 32 bits, divide 32-bit integers."
                    if worst.calls
                    else "as CUTLASS' FastDivmod does."
                )
            ),
            evidence=(
                self.view.observe("divisions by a run-time value", float(len(found)), tier="source"),
                self.view.observe("integer instructions of the divisions", float(count)),
            ),
            gain=Gain.of(ratio, ratio / CONSTANT_SHARE),
            related=self._callers(worst, here),
            index_query="FastDivmod precomputed integer division",
        )

    def division_sites(self) -> list[Site]:
        """The lines on which the compiler divides integers by a value, with the instructions on them."""
        code, lines = self.sass.instructions, self.sass.written
        body = _entry_end(code)
        calls = self.sass.where(lambda x: x.opcode == "CALL" and _divides(code, x.target))
        marked = {lines[i] for i in calls} | {lines[i] for i in range(body) if is_reciprocal(code[i])}
        own = self.sass.where(lambda x: pipe_of(x) in ("int", "alu", "sfu") and "WIDE" not in x.modifiers)
        return [
            Site(
                line,
                tuple(i for i in own if i < body and lines[i] == line),
                tuple(i for i in calls if lines[i] == line),
            )
            for line in sorted(n for n in marked if n is not None)
        ]

    def _ratio(self, sites: Sequence[Site]) -> tuple[float, bool]:
        """Bounded time as it is over that with divisions by constants, and whether memory surely leaves room for it."""
        weight = list(self.sass.weights)
        gone = {i for s in sites for i in s.indices}
        for call, share in ((i, self._long_share(s)) for s in sites for i in s.calls):
            body = body_of(self.sass.instructions, self.sass.instructions[call].target)
            gone.update(body)
            for i in body:
                weight[i] += share * weight[call]
        after = [w * (CONSTANT_SHARE if i in gone else 1.0) for i, w in enumerate(weight)]
        return self.ratio_above_memory(self.sass.cycles_at(weight), self.sass.cycles_at(after))

    def _routine(self, sites: Sequence[Site]) -> list[int]:
        """Indices of the routines that the sites call."""
        code = self.sass.instructions
        targets = {code[i].target for s in sites for i in s.calls}
        return sorted({i for target in targets for i in body_of(code, target)})

    def _long_share(self, site: Site) -> float:
        short = any(is_reciprocal(self.sass.instructions[i]) for i in site.indices)
        return LONG_SHARE if short else 1.0

    def _written(self, site: Site) -> tuple[Division, ...]:
        """The divisions in the text of a site: on its line, or in the functions which that line calls."""
        tree = self.view.tree
        every = (*runtime_divisions(tree, self.view.kernel), *helper_divisions(tree))
        here = tuple(d for d in every if d.line == site.line)
        return here or called_divisions(tree, self.view.text.line_text(site.line))

    def _callers(self, site: Site, here: Span) -> tuple[RelatedSpan, ...]:
        if self.view.kernel.span.contains_line(here.line):
            return ()
        lines = (self.sass.lines[i] for i in (*site.calls, *site.indices))
        line = next((n for n in lines if n is not None), None)
        if line is None:
            return ()
        return (RelatedSpan(self.view.line_span(line), f"{self.view.kernel.name} divides here"),)

    def check_counters(self) -> Iterator[Finding]:
        """Lines of run-time divisions that were counted to execute a large part of all instructions."""
        found = self.view.counted
        if found is None or self.sass.instructions != found.instructions:
            return
        sites = self.division_sites()
        indices = [*{i for s in sites for i in s.indices}, *self._routine(sites)]
        share = found.executed_share(indices)
        if share < LEADING:
            return
        executed = names.PER_INSTRUCTION[0]
        saved = 1.0 / (1.0 - share * (1.0 - CONSTANT_SHARE))
        yield self.finding(
            max(sites, key=lambda s: found.total(executed, (*s.indices, *s.calls))).line,
            confidence="high",
            message=f"Run-time integer division takes {share:.0%} of the executed instructions.",
            guidance=(
                "Make the divisor a template parameter or a power of two (mask and shift), carry quotient "
                "and remainder "
                "along the loop by addition, or precompute a multiplier as CUTLASS' FastDivmod does."
            ),
            evidence=(found.counters.seen("part of the executed instructions", share, LEADING),),
            gain=Gain.of(saved, 1.0 / max(1.0 - share, 0.05)),
            index_query="FastDivmod precomputed integer division",
        )


def is_reciprocal(instruction: Instruction) -> bool:
    """Whether it is the rounded-up conversion that every run-time integer division begins with."""
    return instruction.opcode == "I2F" and "RP" in instruction.modifiers


def _entry_end(code: Sequence[Instruction]) -> int:
    """Index of the first instruction of the routines that stand behind the kernel's own code."""
    first = min((x.target for x in code if x.opcode == "CALL" and x.target is not None), default=None)
    return next((i for i, x in enumerate(code) if first is not None and x.address >= first), len(code))


def _divides(code: Sequence[Instruction], target: int | None) -> bool:
    return any(is_reciprocal(code[i]) for i in body_of(code, target))
