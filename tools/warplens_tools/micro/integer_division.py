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
64 bits that it calls, with the integer multiplies and corrections around it, of which 32 at most count as one
division's; in the source, the `/` or `%` with a
divisor that no constant fixes, in the kernel or in a function it calls; their share of the busiest pipe. Counters
tell how busy arithmetic and issue were, and what warps stalled on: they confirm the finding, bound its gain, or
withdraw it.

The routine for 64 bits is not counted where a short path for smaller operands stands beside it. Without a loop, the
life of a block and the wait for its first load count as what remains.

**Threshold.** A tenth of the kernel's time in the bounded model, memory traffic included: divisions that
hide behind memory are no warning. Where only accesses that the source does not tell could hide them, it is
information, from a gain of 1.5; so is a gain below 1.2, and what memory hides where divisions take more than a third
of the instructions. Three or more before loops of unknown length are a hint, and two or more where nothing was
compiled.

**References.** CUDA C++ Programming Guide, "Maximize Instruction Throughput" (integer arithmetic); CUDA C++
Best Practices Guide, "Division Modulo Operations"; CUTLASS `FastDivmod`.
"""

from __future__ import annotations

import re
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
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_arithmetic
from warplens_tools.sass.blocks import body_of
from warplens_tools.sass.pipes import pipe_of
from warplens_tools.text import Span

#: Executions of the routine for 64 bits per division that has a short path of 32 bits beside it: it is entered where a
#: high word is not zero, as of sizes and indices beyond four thousand million. Without the short path every division
#: enters it.
LONG_SHARE = 0.0
#: Instructions of a division of 32 bits at most, remainder and the test for the short path included; of the routine.
PER_DIVISION, LONG = 32, 70
#: Divisions from which it is told as information that memory hides them; fewer are a hint.
SEVERAL = 2
#: Divisions from which they are a hint before loops whose length is not known.
MANY = 3
#: Gain from which it is a warning: below it readers of other people's code called it arguable at most
#: (tests/wild/labels).
WARNED = 1.2
#: Instructions of a division by a constant over those of one by a variable (about 5 of 20).
CONSTANT_SHARE = 0.25
#: The head of a loop, and a division in it, of a function of the file's too.
_HEAD = re.compile(r"\s*\}?\s*for\s*\(")
_DIVIDES = re.compile(r"[/%]|\bfor\s*\(.*\w\s*\(")


class Site(msgspec.Struct, frozen=True):
    """The divisions of one line."""

    #: The line that their instructions are written on.
    line: int
    indices: tuple[int, ...]
    #: Indices of the calls of the routine that divides 64-bit integers.
    calls: tuple[int, ...]
    #: Divisions among them.
    many: int


class IntegerDivision(MicroTool):
    """Integers are divided by a value known only at run time."""

    code = "WL303"
    slug = "integer-division"
    title = "Run-time integer division"
    avoid = (
        "Do not replace a division by a multiplication in floating point; do not assume a power of two that "
        "the text does not fix."
    )
    rule_words = "ALU|integer|pipeline is the highest"
    tiers = ("source", "binary")
    relevant = ("compute", "latency", "memory")
    judges = (judge_by_arithmetic,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line whose divisions weigh most."""
        if not self.sass:
            yield from self._told()
            return
        sites = self.division_sites()
        if not sites:
            return
        ratio, sure, alone = self._ratio(sites)
        hidden = ratio < (self.worth if sure else self.doubtful)
        # One of 64 bits is worth two: its routine stands beside the short path, and the test for it before.
        many = sum(s.many * (2 if s.calls else 1) for s in sites)
        # Loops whose length is not known outweigh what stands before them, however short they are.
        if hidden and alone < self.worth and (many < MANY or not self._are_before_loops(sites)):
            return
        faint = hidden and (alone < self.doubtful or many < SEVERAL)
        loud = sure and not hidden and ratio >= WARNED
        worst = max(sites, key=lambda s: self.sass.weigh((*s.indices, *s.calls)))
        found = self._written(worst)
        here = (
            found[0].span if len(found) == 1 else self.view.line_span(found[0].line if found else worst.line)
        )
        divisors = ", ".join(dict.fromkeys(d.divisor for d in found))
        by = f" by {divisors}" if divisors else ""
        yield self.finding(
            here,
            severity="warning" if loud else "hint" if faint else "information",
            confidence="medium" if sure and not hidden else "low",
            message=(
                f"Run-time integer division{by} takes about {self._cost(worst)}; by a constant it would take about "
                f"{round(CONSTANT_SHARE * PER_DIVISION)}."
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
                self.view.observe("divisions by a run-time value on the line", float(worst.many)),
                self.view.observe("lines with such divisions", float(len(sites))),
                self.view.observe(
                    "time over time with divisions by constants", round(ratio, 2), "", self.worth
                ),
            ),
            gain=Gain.of(ratio, ratio) if not hidden else None,
            related=(*self._callers(worst, here), *self._others(sites, here)),
            index_query="FastDivmod precomputed integer division",
        )

    def _are_before_loops(self, sites: Sequence[Site]) -> bool:
        """Whether a deeper loop than the divisions' runs a number of times that is not known."""
        depths = self.sass.flow.depths
        own = max((depths[i] for s in sites for i in (*s.indices, *s.calls)), default=0)
        unknown = any(loop.trips is None for a in self.view.accesses for loop in a.loops)
        return own < max(depths, default=0) and unknown

    def _told(self) -> Iterator[Finding]:
        """What the text alone says, where nothing was compiled."""
        found = tuple(d for d in runtime_divisions(self.view.tree, self.view.kernel) if d.whole)
        if len(found) < SEVERAL:
            return
        divisors = ", ".join(dict.fromkeys(d.divisor for d in found))
        yield self.finding(
            found[0].span,
            severity="hint",
            confidence="low",
            message=f"Run-time integer divisions by {divisors}: some {PER_DIVISION - 8} instructions each.",
            guidance=(
                f"Make {divisors} template parameters or powers of two (mask and shift), let a second axis of the grid "
                "or of the block say which row it is, or precompute multipliers as CUTLASS' FastDivmod does."
            ),
            evidence=(self.view.observe("divisions by run-time values", float(len(found)), tier="source"),),
            index_query="FastDivmod precomputed integer division",
        )

    def division_sites(self) -> list[Site]:
        """The lines on which the compiler divides integers by a value, with the instructions on them."""
        code, lines = self.sass.instructions, self.sass.written
        body = _entry_end(code)
        calls = self.sass.where(lambda x: x.opcode == "CALL" and _divides(code, x.target))
        marked = {lines[i] for i in calls} | {lines[i] for i in range(body) if is_reciprocal(code[i])}
        own = self.sass.where(lambda x: pipe_of(x) in ("int", "alu", "sfu") and "WIDE" not in x.modifiers)
        found = [
            Site(
                line,
                tuple(i for i in own if i < body and lines[i] == line),
                here := tuple(i for i in calls if lines[i] == line),
                sum(is_reciprocal(code[i]) and lines[i] == line for i in range(body)) or len(here),
            )
            for line in sorted(n for n in marked if n is not None)
        ]
        return [site for site in found if not self._counts_iterations(site)]

    def _counts_iterations(self, site: Site) -> bool:
        """Whether the compiler divides to unroll a loop with a stride, once before it: its head divides nothing."""
        text = self.view.text.line_text(site.line)
        return bool(_HEAD.match(text)) and not _DIVIDES.search(text) and not self._is_elsewhere(site)

    def _ratio(self, sites: Sequence[Site]) -> tuple[float, bool, float]:
        """Bounded time as it is over that with divisions by constants, whether memory surely leaves room for it, and
        the same of the pipes alone.

        What else the lines compute stays: of their instructions at most `PER_DIVISION` a division are the division's.
        """
        weight, after = list(self.sass.weights), list(self.sass.weights)
        for site in sites:
            own = min(1.0, PER_DIVISION * site.many / max(len(site.indices), 1))
            for i in site.indices:
                after[i] = weight[i] * (1.0 - own * (1.0 - CONSTANT_SHARE))
            for call in site.calls:
                body = body_of(self.sass.instructions, self.sass.instructions[call].target)
                entered = self._long_share(site) * weight[call]
                for i in body:
                    weight[i] += entered
        for i in self._routine(sites):
            after[i] = CONSTANT_SHARE * weight[i]
        before, later = self.sass.cycles_at(weight), self.sass.cycles_at(after)
        # What the kernel waits for anyway: the life of a block, and atomics that meet at one place.
        floor = self.view.waiting.start | self.view.contention.cycles
        gone = frozenset(i for i, w in enumerate(after) if w < weight[i])
        waited, left = self.view.waiting.floors(lambda i, x: None if i in gone else x)
        kept = {n: CONSTANT_SHARE * waited[n] + (1.0 - CONSTANT_SHARE) * left[n] for n in waited}
        ratio, sure = self.ratio_above_memory(before | floor | waited, later | floor | kept)
        return ratio, sure, bound_ratio(before, later)

    def _routine(self, sites: Sequence[Site]) -> list[int]:
        """Indices of the routines that the sites call."""
        code = self.sass.instructions
        targets = {code[i].target for s in sites for i in s.calls}
        return sorted({i for target in targets for i in body_of(code, target)})

    def _long_share(self, site: Site) -> float:
        short = any(is_reciprocal(self.sass.instructions[i]) for i in site.indices)
        return LONG_SHARE if short else 1.0

    def _cost(self, site: Site) -> str:
        short = any(is_reciprocal(self.sass.instructions[i]) for i in site.indices)
        if not short:
            return f"{LONG} instructions each time, in a routine for 64 bits"
        wide = f", and a routine of {LONG} where an operand needs more than 32 bits" if site.calls else ""
        return f"{round(min(len(site.indices) / site.many, PER_DIVISION))} instructions each time{wide}"

    def _written(self, site: Site) -> tuple[Division, ...]:
        """The divisions in the text of a site: on its line, or in the functions which that line calls; else those of
        the nearest line that has any, for the compiler puts a routine's call and its test on a line before."""
        tree = self.view.tree
        own = runtime_divisions(tree, self.view.kernel)
        here = tuple(d for d in (*own, *helper_divisions(tree)) if d.line == site.line)
        here = here or called_divisions(tree, self.view.text.line_text(site.line))
        if here or not own or self._is_elsewhere(site):
            return here
        at = site.line
        if not self.view.kernel.span.contains_line(at):
            at = next((n for i in (*site.indices, *site.calls) if (n := self.sass.lines[i]) is not None), at)
        nearest = min(own, key=lambda d: (d.line < at, abs(d.line - at))).line
        return tuple(d for d in own if d.line == nearest)

    def _is_elsewhere(self, site: Site) -> bool:
        """Whether the divisions are written in another file, and only called on the line."""
        code = self.sass.instructions
        marks = [code[i] for i in (*site.indices, *site.calls) if is_reciprocal(code[i]) or i in site.calls]
        return any(self.sass.table.is_foreign(x) for x in marks)

    def _others(self, sites: Sequence[Site], here: Span) -> tuple[RelatedSpan, ...]:
        """The lines of the kernel's other divisions."""
        lines = {d.line for s in sites for d in self._written(s)[:1]} - {here.line}
        return tuple(
            RelatedSpan(self.view.line_span(n), "a run-time division here too") for n in sorted(lines)[:4]
        )

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
