# SPDX-License-Identifier: Apache-2.0
"""Maps SASS back to the user's lines, and weighs instructions by the loops they stand in."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from warplens_tools.cuda.model import Kernel
from warplens_tools.evidence import CompiledKernel, Instruction
from warplens_tools.sass.flow import Flow

#: Executions assumed per nesting level where trip counts are unknown. Only ratios between instructions
#: of one kernel are formed from it: deep loops must dominate, and no figure shown to a user rests on it.
TRIPS_PER_LEVEL = 32.0
#: Executions of the compiler's own slow paths: so few that nothing is blamed on them, and not none, as they are there.
RARE_WEIGHT = 1.0 / 1024.0


def kernel_line(instruction: Instruction, path: str, kernel: Kernel) -> int | None:
    """The 1-based line of `kernel` the instruction belongs to: the innermost link of its inline chain
    that lies inside the kernel's definition; None where the chain never enters it."""
    for place in instruction.lines:
        if kernel.span.contains_line(place.line) and _same_name(place.path, path):
            return place.line
    return None


def written_line(instruction: Instruction, path: str) -> int | None:
    """The 1-based line of the kernel's file on which the instruction is written: the kernel's own, or that of a device
    function which the kernel calls; None where the code is another file's."""
    return next((place.line for place in instruction.lines if _same_name(place.path, path)), None)


def is_on_line(instruction: Instruction, path: str, line: int) -> bool:
    """Whether the instruction was written on a line of the file, or inlined through it."""
    return any(place.line == line and _same_name(place.path, path) for place in instruction.lines)


@functools.lru_cache(maxsize=256)
def _same_name(one: str, other: str) -> bool:
    return Path(one).name == Path(other).name


def weights(flow: Flow) -> list[float]:
    """Relative executions of each instruction: `TRIPS_PER_LEVEL` to the power of its depth; the rare hardly any."""
    found = [TRIPS_PER_LEVEL**depth for depth in flow.depths]
    for i in flow.rare:
        found[i] = RARE_WEIGHT
    return found


def hottest_line(
    compiled: CompiledKernel, flow: Flow, indices: Sequence[int], path: str, kernel: Kernel
) -> int | None:
    """The kernel's line with the largest weight among the instructions at `indices`."""
    weight = weights(flow)
    total: dict[int, float] = {}
    for i in indices:
        line = kernel_line(compiled.instructions[i], path, kernel)
        if line is not None:
            total[line] = total.get(line, 0.0) + weight[i]
    return max(sorted(total), key=lambda line: total[line], default=None)
