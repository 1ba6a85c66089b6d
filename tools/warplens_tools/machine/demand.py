# SPDX-License-Identifier: Apache-2.0
"""What one warp's pass through a kernel needs of each resource of an SM, all in the SM's cycles."""

from __future__ import annotations

import msgspec

from warplens_tools.kernel_code import KernelCode
from warplens_tools.machine.conflicts import BankConflicts
from warplens_tools.machine.contention import Contention
from warplens_tools.machine.traffic import MemoryTraffic, Traffic, cycles_of
from warplens_tools.sass.pipes import flops

#: Resources by class, device memory aside.
MEMORY = ("lsu", "l1 lines", "l2", "global atomics", "shared atomics", "constants", "constant misses")
COMPUTE = ("fp64", "fp32", "fp16", "int", "alu", "sfu", "tensor", "issue")


class Demand(msgspec.Struct, frozen=True):
    """Cycles per warp on one SM by resource; `dram` once counted as compulsory and once as if all missed."""

    pipes: dict[str, float]
    dram_lower: float
    dram_upper: float
    traffic: Traffic
    flops: float

    def top(self, dram: float) -> tuple[str, float, str, float]:
        """Busiest resource and its cycles, then the busiest of the other class and its cycles."""
        memory = {"dram": dram} | {name: self.pipes.get(name, 0.0) for name in MEMORY}
        compute = {pipe: self.pipes.get(pipe, 0.0) for pipe in COMPUTE}
        m, c = max(memory, key=lambda k: memory[k]), max(compute, key=lambda k: compute[k])
        if memory[m] >= compute[c]:
            return m, memory[m], c, compute[c]
        return c, compute[c], m, memory[m]


def demand_of(
    code: KernelCode, traffic: MemoryTraffic, conflicts: BankConflicts, contention: Contention
) -> Demand:
    """What one warp's pass needs of each resource of an SM."""
    sass, per_clock, moved = code.sass, code.gpu.dram_bytes_per_clock, traffic.moved()
    lsu = sass.cycles.get("lsu", 0.0) + conflicts.extra_passes(conflicts.every)
    levels = {name: cycles for name, cycles in cycles_of(moved, code.gpu).items() if name in MEMORY}
    work = sum(flops(x) * w for x, w in zip(sass.instructions, sass.weights, strict=True))
    return Demand(
        pipes=sass.cycles | {"lsu": lsu} | levels | contention.cycles,
        dram_lower=moved.lower / per_clock,
        dram_upper=moved.upper / per_clock,
        traffic=moved,
        flops=work * code.gpu.limits.warp_size,
    )
