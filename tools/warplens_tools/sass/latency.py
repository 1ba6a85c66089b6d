# SPDX-License-Identifier: Apache-2.0
"""Cycles that one warp alone needs for a stretch of SASS: issued in order, each waiting for what it reads.

A warp issues its instructions in order, at most one per cycle, and waits where a source register is not there
yet. Latencies are fixed ones of the pipes, from published microbenchmarks: Jia et al., "Dissecting the NVIDIA Volta
GPU Architecture via Microbenchmarking" (2018), and Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU
Architecture" (2024). Where sources differ the smaller figure is taken, so that waits are not overstated.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.arch.gpu import Costs, Gpu
from warplens_tools.evidence import Instruction
from warplens_tools.sass.pipes import Pipe, pipe_of, space_of
from warplens_tools.sass.registers import registers_of
from warplens_tools.sass.throughput import instruction_cycles

#: Cycles from issue to the first instruction that can read the result.
_LATENCY: dict[Pipe, float] = {
    "fp32": 4.0, "fp16": 4.0, "int": 4.0, "alu": 4.0, "fp64": 8.0, "sfu": 18.0, "tensor": 17.0,
    "uniform": 6.0, "control": 1.0, "other": 12.0,
}  # fmt: skip
#: Warps of a block where the launch is not known.
USUAL_WARPS = 8
_PARTITIONED = frozenset({"fp32", "fp16", "fp64", "int", "alu", "sfu", "tensor"})


def latency(instruction: Instruction, costs: Costs, memory: float) -> float:
    """Cycles until a result can be read; `memory` for loads of global memory."""
    pipe = pipe_of(instruction)
    if pipe != "lsu":
        return _LATENCY[pipe]
    space = space_of(instruction)
    if space in ("global", "generic"):
        return memory
    return costs.l1_wait if space == "local" else costs.shared_wait


class Waits(msgspec.Struct, frozen=True):
    """What one pass of a warp through a stretch takes once it repeats."""

    cycles: float
    #: By instruction of the stretch: cycles in which others wait for its result, or all for each other.
    blamed: tuple[float, ...]


def waits(
    instructions: Sequence[Instruction],
    gpu: Gpu,
    memory: float | Sequence[float],
    block_warps: int = USUAL_WARPS,
) -> Waits:
    """A warp's pass through a stretch that it runs again and again.

    `memory`: cycles for loads of global memory, or for each instruction those if it is one.
    """
    each = [memory] * len(instructions) if isinstance(memory, float) else memory
    warp = _Warp(gpu, each, gpu.costs.barrier_clocks(block_warps))
    ends = [warp.run(instructions) for _ in range(3)]
    return Waits(ends[-1] - ends[-2], tuple(warp.blamed))


class _Warp:
    """A warp alone on its scheduler, from one issue to the next."""

    def __init__(self, gpu: Gpu, memory: Sequence[float], barrier: float) -> None:
        self.gpu, self.memory, self.barrier = gpu, memory, barrier
        self.now = 0.0
        self.blamed: list[float] = []
        #: By register: when its value is there, and which instruction gives it.
        self.ready: dict[str, tuple[float, int]] = {}
        self.free: dict[str, float] = {}

    def run(self, instructions: Sequence[Instruction]) -> float:
        """The cycle after one more pass."""
        self.blamed = [0.0] * len(instructions)
        for index, instruction in enumerate(instructions):
            self._issue(index, instruction)
        return self.now

    def _issue(self, index: int, instruction: Instruction) -> None:
        pipe = pipe_of(instruction)
        written, read = registers_of(instruction)
        when, giver = max((self.ready.get(name, (0.0, index)) for name in read), default=(0.0, index))
        start = max(self.now, self.free.get(pipe, 0.0))
        self.blamed[giver] += max(when - start, 0.0)
        start = max(start, when)
        # Arithmetic pipes belong to one scheduler each; the load/store units serve the whole SM.
        parts = self.gpu.limits.schedulers if pipe in _PARTITIONED else 1
        self.free[pipe] = start + max(1.0, parts * instruction_cycles(instruction, pipe, self.gpu))
        for name in written:
            self.ready[name] = (start + latency(instruction, self.gpu.costs, self.memory[index]), index)
        self.now = start + 1.0
        if instruction.opcode == "BAR":
            self.now += self.barrier
            self.blamed[index] += self.barrier
