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
from warplens_tools.cost.gain import bound_ratio, make_gain
from warplens_tools.cost.removal import DOUBTFUL, cautious_floor, hopeful_floor
from warplens_tools.cuda.facts.divisions import (
    Division,
    called_divisions,
    helper_divisions,
    runtime_divisions,
)
from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.evidence import CompiledKernel, Instruction, Observation
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.counted import LEADING, counted, executed_share
from warplens_tools.micro.common.room import ARITHMETIC, ARITHMETIC_STALLS, DRAM, ISSUE, L1, L2, judge_by_room
from warplens_tools.sass.attribution import kernel_line, weights, written_line
from warplens_tools.sass.flow import analyse
from warplens_tools.sass.pipes import pipe_of
from warplens_tools.sass.routines import body_of
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.text import Span
from warplens_tools.view import KernelView

#: Speedup in the bounded model from which divisions are reported.
REPORTED = 1.1
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


def check(view: KernelView) -> Iterator[Finding]:
    """One finding per kernel, on the line whose divisions weigh most."""
    compiled, binary = view.evidence.worst, view.evidence.binary
    if compiled is None or binary is None or not compiled.instructions:
        return
    sites = division_sites(view, compiled)
    if not sites:
        return
    flow = analyse(compiled.instructions)
    ratio, sure = _ratio(view, compiled, sites)
    if ratio < (REPORTED if sure else DOUBTFUL):
        return
    weight = weights(flow)
    worst = max(sites, key=lambda s: sum(weight[i] for i in (*s.indices, *s.calls)))
    found = _written(view, worst)
    here = found[0].span if len(found) == 1 else view.line_span(found[0].line if found else worst.line)
    divisors = ", ".join(dict.fromkeys(d.divisor for d in found)) or "a value"
    count = len({i for s in sites for i in s.indices}) + len(_routine(compiled, sites))
    yield TOOL.finding(
        view,
        span=here,
        severity="warning" if sure else "information",
        confidence="low" if not sure else "high" if any(flow.depths[i] for i in worst.indices) else "medium",
        message=(
            f"Dividing by {divisors}, known only at run time, takes {count} instructions of {view.kernel.name}"
            f"{', a routine for 64 bits among them,' if worst.calls else ''} where a constant divisor would take "
            "about a quarter."
        ),
        guidance=(
            f"Make {divisors} a template parameter or a power of two (mask and shift), carry quotient and "
            "remainder along the loop by addition, or precompute a multiplier "
            + (
                "and take the high half of a product, as __umul64hi gives it (Barrett reduction); where both operands "
                "fit 32 bits, divide 32-bit integers."
                if worst.calls
                else "as CUTLASS' FastDivmod does."
            )
        ),
        evidence=(
            Observation("source", "tree-sitter", "divisions by a run-time value", float(len(found))),
            Observation("binary", binary.origin, "integer instructions of the divisions", float(count)),
        ),
        gain=make_gain(ratio, 1.0, ratio / CONSTANT_SHARE),
        related=_callers(view, compiled, worst, here),
        index_query="FastDivmod precomputed integer division",
    )


def is_reciprocal(instruction: Instruction) -> bool:
    """Whether it is the rounded-up conversion that every run-time integer division begins with."""
    return instruction.opcode == "I2F" and "RP" in instruction.modifiers


def division_sites(view: KernelView, compiled: CompiledKernel) -> list[Site]:
    """The lines on which the compiler divides integers by a value, with the instructions on them."""
    code, path = compiled.instructions, view.model.path
    lines = [written_line(x, path) for x in code]
    body = _entry_end(compiled)
    calls = [i for i, x in enumerate(code) if x.opcode == "CALL" and _divides(compiled, x.target)]
    marked = {lines[i] for i in calls} | {lines[i] for i in range(body) if is_reciprocal(code[i])}
    return [
        Site(
            line,
            tuple(
                i for i in range(body)
                if lines[i] == line and pipe_of(code[i]) in ("int", "alu", "sfu") and "WIDE" not in code[i].modifiers
            ),
            tuple(i for i in calls if lines[i] == line),
        )
        for line in sorted(n for n in marked if n is not None)
    ]  # fmt: skip


def _entry_end(compiled: CompiledKernel) -> int:
    """Index of the first instruction of the routines that stand behind the kernel's own code."""
    targets = [x.target for x in compiled.instructions if x.opcode == "CALL" and x.target is not None]
    first = min(targets, default=None)
    code = compiled.instructions
    return next((i for i, x in enumerate(code) if first is not None and x.address >= first), len(code))


def _divides(compiled: CompiledKernel, target: int | None) -> bool:
    return any(is_reciprocal(compiled.instructions[i]) for i in body_of(compiled.instructions, target))


def _routine(compiled: CompiledKernel, sites: Sequence[Site]) -> list[int]:
    targets = {compiled.instructions[i].target for s in sites for i in s.calls}
    return sorted({i for target in targets for i in body_of(compiled.instructions, target)})


def _ratio(view: KernelView, compiled: CompiledKernel, sites: Sequence[Site]) -> tuple[float, bool]:
    """Bounded time as it is over that with divisions by constants, and whether memory surely leaves room for it."""
    flow = analyse(compiled.instructions)
    weight = weights(flow)
    gone = {i for s in sites for i in s.indices}
    for call, share in ((i, _long_share(compiled, s)) for s in sites for i in s.calls):
        body = body_of(compiled.instructions, compiled.instructions[call].target)
        gone.update(body)
        for i in body:
            weight[i] += share * weight[call]
    after = [w * (CONSTANT_SHARE if i in gone else 1.0) for i, w in enumerate(weight)]
    before, later = (pipe_cycles(compiled.instructions, w, view.gpu) for w in (weight, after))
    floor = cautious_floor(view, compiled, weights(flow))
    ratio = bound_ratio(before | floor, later | floor)
    if ratio >= REPORTED:
        return ratio, True
    floor = hopeful_floor(view, compiled, weights(flow))
    return bound_ratio(before | floor, later | floor), False


def _long_share(compiled: CompiledKernel, site: Site) -> float:
    return LONG_SHARE if any(is_reciprocal(compiled.instructions[i]) for i in site.indices) else 1.0


def _written(view: KernelView, site: Site) -> tuple[Division, ...]:
    """The divisions in the text of a site: on its line, or in the functions which that line calls."""
    tree = parse_tree(view.text)
    every = (*runtime_divisions(tree, view.kernel), *helper_divisions(tree))
    here = tuple(d for d in every if d.line == site.line)
    return here or called_divisions(tree, view.text.line_text(site.line))


def _callers(view: KernelView, compiled: CompiledKernel, site: Site, here: Span) -> tuple[RelatedSpan, ...]:
    if view.kernel.span.contains_line(here.line):
        return ()
    code = [compiled.instructions[i] for i in (*site.calls, *site.indices)]
    line = next((n for x in code if (n := kernel_line(x, view.model.path, view.kernel)) is not None), None)
    return () if line is None else (RelatedSpan(view.line_span(line), f"{view.kernel.name} divides here"),)


def spot(view: KernelView) -> Iterator[Finding]:
    """Lines of run-time divisions that were counted to execute a large part of all instructions."""
    found, compiled = counted(view), view.evidence.worst
    if found is None or compiled is None or compiled.instructions != found.instructions:
        return
    sites = division_sites(view, compiled)
    indices = [*{i for s in sites for i in s.indices}, *_routine(compiled, sites)]
    share = executed_share(found, indices)
    if share < LEADING:
        return
    executed = names.PER_INSTRUCTION[0]
    saved = 1.0 / (1.0 - share * (1.0 - CONSTANT_SHARE))
    yield TOOL.finding(
        view,
        span=view.line_span(max(sites, key=lambda s: found.total(executed, (*s.indices, *s.calls))).line),
        severity="warning",
        confidence="high",
        message=f"Dividing by a value known only at run time takes {share:.0%} of the executed instructions.",
        guidance=(
            "Make the divisor a template parameter or a power of two (mask and shift), carry quotient and remainder "
            "along the loop by addition, or precompute a multiplier as CUTLASS' FastDivmod does."
        ),
        evidence=(found.seen("part of the executed instructions", share, LEADING),),
        gain=make_gain(saved, 1.0, 1.0 / max(1.0 - share, 0.05)),
        index_query="FastDivmod precomputed integer division",
    )


TOOL = MicroTool(
    code="WL303",
    slug="integer-division",
    title="Integers are divided by a value known only at run time",
    tiers=("binary",),
    relevant=("compute", "latency", "memory"),
    check=check,
    spot=spot,
    judge=judge_by_room(own=(*ARITHMETIC, *ISSUE), stalls=ARITHMETIC_STALLS, kept=(*DRAM, *L1, *L2)),
)
