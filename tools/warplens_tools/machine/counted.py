# SPDX-License-Identifier: Apache-2.0
"""The SASS of a kernel with what Nsight Compute counted at each instruction, for causes that counters alone show.

Only where the profiled code is this build's, so that lines, loops and data flow are known of what was counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.collect.match import same_code
from warplens_tools.evidence import CounterEvidence, Instruction, Observation
from warplens_tools.kernel_code import KernelCode
from warplens_tools.sass.pipes import is_store, space_of
from warplens_tools.sass.varying import gathering

SAMPLED = "smsp__pcsamp_warps_issue_stalled_"
#: Measured over ideal amount of a line, and its part of the whole kernel's, from which its waste is a cause.
WASTEFUL, LEADING = 1.5, 0.3


class Wasteful(msgspec.Struct, frozen=True):
    """The line that wastes most, and how many times the fewest possible it moves."""

    line: int
    ratio: float
    #: Amount of one executed instruction.
    each: float
    evidence: tuple[Observation, ...]


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

    def wasteful_line(self, metric: str, space: str, *, stores: bool | None = None) -> Wasteful | None:
        """The line whose accesses to a space move most for nothing; None where no line leads clearly.

        Accesses whose addresses come out of loaded data are left out: their order is the data's.
        """
        gathered = gathering(self.instructions)
        indices = [
            i
            for i, x in enumerate(self.instructions)
            if space_of(x) == space and i not in gathered and (stores is None or is_store(x) == stores)
        ]
        here = {line: [i for i in indices if self.lines[i] == line] for line in set(self.lines) if line}
        waste = {n: self.total(metric, at) - self.total(f"{metric}_ideal", at) for n, at in here.items()}
        line = max(sorted(waste), key=lambda n: waste[n], default=None)
        if line is None or waste[line] < LEADING * self.total(metric) or not waste[line]:
            return None
        moved = self.total(metric, here[line])
        ratio = moved / max(self.total(f"{metric}_ideal", here[line]), 1.0)
        if ratio < WASTEFUL:
            return None
        seen = self.counters.seen(
            "part of the kernel's that the line moves", moved / self.total(metric), LEADING
        )
        each = moved / max(self.total(names.PER_INSTRUCTION[0], here[line]), 1.0)
        return Wasteful(line, ratio, each, (seen,))

    def serial_tries(self, indices: Sequence[int]) -> float:
        """Wavefronts of shared atomics for each time a warp comes to one: its retries and replays."""
        wavefronts = self.total(names.SHARED_WAVEFRONTS, indices)
        entries = 0.0
        for i in indices:
            before = [k for k in range(max(0, i - 12), i) if self.instructions[k].opcode == "BSSY"]
            entries += self.total(names.PER_INSTRUCTION[0], [before[-1] if before else i])
        return wavefronts / entries if entries else 0.0

    def executed_share(self, indices: Sequence[int]) -> float:
        """Part of the executed instructions that these are, 0 to 1."""
        every = self.total(names.PER_INSTRUCTION[0])
        return self.total(names.PER_INSTRUCTION[0], indices) / every if every else 0.0


def counted(code: KernelCode) -> Counted | None:
    """What was counted of this build's code; None where other code was profiled, or none instruction by instruction."""
    counters = code.evidence.counters
    if counters is None or not counters.instructions:
        return None
    twin = next((c for c in code.evidence.compiled if same_code(c, counters.instructions)), None)
    if twin is None:
        return None
    by_offset = {x.offset: x.values for x in counters.instructions}
    sass = code.sass_of(twin)
    first = sass.instructions[0].address
    values = tuple(by_offset.get(x.address - first, {}) for x in sass.instructions)
    return Counted(counters, sass.instructions, sass.lines, values)
