# SPDX-License-Identifier: Apache-2.0
"""The SASS of a kernel with what Nsight Compute counted at each instruction, for causes that counters alone show.

Only where the profiled code is this build's, so that lines, loops and data flow are known of what was counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Literal

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.collect.match import same_code
from warplens_tools.cost.gain import make_gain
from warplens_tools.evidence import CounterEvidence, Instruction, Observation
from warplens_tools.finding import Finding
from warplens_tools.micro.base import MicroTool
from warplens_tools.sass.attribution import kernel_line
from warplens_tools.sass.pipes import is_store, space_of
from warplens_tools.sass.varying import gathering
from warplens_tools.view import KernelView

SAMPLED = "smsp__pcsamp_warps_issue_stalled_"
#: Measured over ideal amount of a line, and its part of the whole kernel's, from which its waste is a cause.
WASTEFUL, LEADING = 1.5, 0.3
#: Hit rate of the L1, per cent, from which most of what is loaded was fetched before.
MOSTLY_HITS = 50.0
ReadKind = Literal["read", "field", "chunk"]
_FOR = re.compile(r"\bfor\s*\([^;=]*=([^;]*);")


class Counted(msgspec.Struct, frozen=True):
    """A kernel's instructions in address order, each with its line of the kernel and its counters."""

    counters: CounterEvidence
    instructions: tuple[Instruction, ...]
    lines: tuple[int | None, ...]
    values: tuple[dict[str, float], ...]

    def total(self, metric: str, indices: Collection[int] | None = None) -> float:
        """A counter over some instructions, all where none are given."""
        chosen = range(len(self.values)) if indices is None else indices
        return sum(self.values[i].get(metric, 0.0) for i in chosen)

    def where(self, is_one: Callable[[Instruction], bool]) -> list[int]:
        """Indices of the instructions of a kind."""
        return [i for i, x in enumerate(self.instructions) if is_one(x)]

    def line_of(self, indices: Collection[int], metric: str) -> int | None:
        """The kernel's line with most of a counter among some instructions; None where none was counted on a line."""
        found: dict[int, float] = {}
        for i in indices:
            line, amount = self.lines[i], self.values[i].get(metric, 0.0)
            if line is not None and amount:
                found[line] = found.get(line, 0.0) + amount
        return max(sorted(found), key=lambda line: found[line], default=None)

    def seen(self, metric: str, value: float, threshold: float) -> Observation:
        """Something counted."""
        return Observation("counters", self.counters.origin, metric, round(value, 3), "", threshold)


def counted(view: KernelView) -> Counted | None:
    """What was counted of this build's code; None where other code was profiled, or none instruction by instruction."""
    counters = view.evidence.counters
    if counters is None or not counters.instructions:
        return None
    twin = next((c for c in view.evidence.compiled if same_code(c, counters.instructions)), None)
    if twin is None:
        return None
    by_offset = {x.offset: x.values for x in counters.instructions}
    code = twin.instructions
    return Counted(
        counters,
        tuple(code),
        tuple(kernel_line(x, view.model.path, view.kernel) for x in code),
        tuple(by_offset.get(x.address - code[0].address, {}) for x in code),
    )


class Wasteful(msgspec.Struct, frozen=True):
    """The line that wastes most, and how many times the fewest possible it moves."""

    line: int
    ratio: float
    #: Amount of one executed instruction.
    each: float
    evidence: tuple[Observation, ...]


def wasteful_line(
    view: KernelView, metric: str, space: str, *, stores: bool | None = None
) -> Wasteful | None:
    """The line whose accesses to a space move most for nothing; None where no line leads clearly.

    Accesses whose addresses come out of loaded data are left out: their order is the data's.
    """
    found = counted(view)
    if found is None:
        return None
    gathered = gathering(found.instructions)
    indices = [
        i
        for i, x in enumerate(found.instructions)
        if space_of(x) == space and i not in gathered and (stores is None or is_store(x) == stores)
    ]
    here = {line: [i for i in indices if found.lines[i] == line] for line in set(found.lines) if line}
    waste = {n: found.total(metric, at) - found.total(f"{metric}_ideal", at) for n, at in here.items()}
    line = max(sorted(waste), key=lambda n: waste[n], default=None)
    if line is None or waste[line] < LEADING * found.total(metric) or not waste[line]:
        return None
    ratio = found.total(metric, here[line]) / max(found.total(f"{metric}_ideal", here[line]), 1.0)
    if ratio < WASTEFUL:
        return None
    part = found.total(metric, here[line]) / found.total(metric)
    seen = found.seen("part of the kernel's that the line moves", part, LEADING)
    each = found.total(metric, here[line]) / max(found.total(names.PER_INSTRUCTION[0], here[line]), 1.0)
    return Wasteful(line, ratio, each, (seen,))


def wasteful_read(view: KernelView, kind: ReadKind) -> Wasteful | None:
    """The line of loads that wastes most, where its pattern is of a kind.

    Fewer sectors a request than lanes are lanes less than a sector apart: a field of a struct. One sector a lane,
    that the L1 still holds when the next loads come, in a loop that starts at a place of each thread's own: a
    stretch for each thread. All else is a read across rows.
    """
    found = wasteful_line(view, names.GLOBAL_SECTORS, "global", stores=False)
    if found is None:
        return None
    lanes = 0.95 * view.gpu.limits.warp_size
    hits = (
        names.value(view.evidence.counters, names.L1_HIT_RATE) if view.evidence.counters is not None else None
    )
    if found.each < lanes:
        return found if kind == "field" else None
    stretches = hits is not None and hits >= MOSTLY_HITS and _starts_apart(view, found.line)
    return found if kind == ("chunk" if stretches else "read") else None


def _starts_apart(view: KernelView, line: int) -> bool:
    """Whether the loop around a line starts at anything but a number."""
    above = range(line, view.kernel.body.line, -1)
    head = next((text for n in above if "for" in (text := view.text.line_text(n)) and _FOR.search(text)), "")
    first = _FOR.search(head)
    return first is not None and not first[1].strip().isdigit()


def serial_tries(found: Counted, indices: Sequence[int]) -> float:
    """Wavefronts of shared atomics for each time a warp comes to one: its retries and replays."""
    wavefronts = found.total(names.SHARED_WAVEFRONTS, indices)
    entries = 0.0
    for i in indices:
        before = [k for k in range(max(0, i - 12), i) if found.instructions[k].opcode == "BSSY"]
        entries += found.total(names.PER_INSTRUCTION[0], [before[-1] if before else i])
    return wavefronts / entries if entries else 0.0


def executed_share(found: Counted, indices: Sequence[int]) -> float:
    """Part of the executed instructions that these are, 0 to 1."""
    every = found.total(names.PER_INSTRUCTION[0])
    return found.total(names.PER_INSTRUCTION[0], indices) / every if every else 0.0


def counted_finding(
    view: KernelView, tool: MicroTool, found: Wasteful, *, message: str, guidance: str
) -> Finding:
    """What was counted of a line, as a warning: its waste is what removing it gains at most."""
    return tool.finding(
        view,
        span=view.line_span(found.line),
        severity="warning",
        confidence="high",
        message=message,
        guidance=guidance,
        evidence=found.evidence,
        gain=make_gain(found.ratio, 1.0, found.ratio),
    )
