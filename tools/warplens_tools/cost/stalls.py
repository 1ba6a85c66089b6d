# SPDX-License-Identifier: Apache-2.0
"""Where a kernel waits although its units have work left: the loops' latencies against the warps that hide them.

An SM's time for one pass of all its resident warps through a loop is the larger of two: what the busiest pipe needs
for all of them, and what one warp needs alone, in order (`sass.latency`). Where barriers separate the parts of the
loop a block cannot overlap its own parts, so its pass takes both, and only other blocks hide it.
"""

from __future__ import annotations

import msgspec

from warplens_tools.cost.geometry import geometry
from warplens_tools.evidence import CompiledKernel
from warplens_tools.launches import block_threads, theoretical_occupancy
from warplens_tools.sass.attribution import TRIPS_PER_LEVEL
from warplens_tools.sass.flow import Flow, Loop, analyse
from warplens_tools.sass.latency import L2_CLOCKS, waits
from warplens_tools.sass.pipes import is_load, space_of
from warplens_tools.sass.throughput import pipe_cycles
from warplens_tools.view import KernelView


class Residency(msgspec.Struct, frozen=True):
    """What an SM holds at once, and the warps of one block."""

    blocks: int
    block_warps: int

    @property
    def warps(self) -> int:
        """Resident warps per SM."""
        return self.blocks * self.block_warps


class LoopPass(msgspec.Struct, frozen=True):
    """One pass of a warp through a loop. Clocks of an SM."""

    #: Of the kernel's instructions.
    indices: tuple[int, ...]
    depth: int
    #: The busiest pipe's clocks for one warp.
    busy: float
    #: One warp alone, and how much of that it waits for global memory, at barriers, and for other results.
    alone: float
    memory: float
    barrier: float
    dependency: float
    #: By instruction of `indices`: clocks in which others wait for its result.
    blamed: tuple[float, ...]


def residency(view: KernelView, compiled: CompiledKernel) -> Residency | None:
    """Blocks that an SM holds, of as many as the launch gives it; None where the launch is not known."""
    found = theoretical_occupancy(view.kernel, view.model, compiled, view.gpu)
    threads = block_threads(view.kernel, view.model, compiled)
    if found is None or not found.blocks or threads is None:
        return None
    shape = geometry(view)
    given = -(-shape.blocks // view.gpu.multiprocessors) if shape is not None else found.blocks
    if not given or not threads:
        return None
    return Residency(min(found.blocks, given), -(-threads // view.gpu.limits.warp_size))


def innermost_passes(view: KernelView, compiled: CompiledKernel) -> list[LoopPass]:
    """Every loop that holds no other, in address order; a kernel without loops is one pass of its own."""
    flow = analyse(compiled.instructions)
    if not flow.loops and flow.blocks:
        whole = Loop(0, frozenset(range(len(flow.blocks))), 0)
        return [loop_pass(view, compiled, flow, whole)]
    inner = [x for x in flow.loops if not any(y is not x and y.blocks < x.blocks for y in flow.loops)]
    return [loop_pass(view, compiled, flow, loop) for loop in inner]


def loop_pass(
    view: KernelView, compiled: CompiledKernel, flow: Flow, loop: Loop, memory: float = L2_CLOCKS
) -> LoopPass:
    """A loop's pass. Loops inside it count `TRIPS_PER_LEVEL` times towards `busy`, and once towards the waits."""
    indices = flow.instructions_of(loop)
    inside = [compiled.instructions[i] for i in indices]
    weights = [TRIPS_PER_LEVEL ** (flow.depths[i] - loop.depth) for i in indices]
    spent = waits(inside, view.gpu, memory)
    from_memory = [
        space_of(x) in ("global", "generic") and (is_load(x) or x.opcode in ("ATOM", "ATOMG")) for x in inside
    ]
    at_barrier = [x.opcode == "BAR" for x in inside]
    shares = [
        sum(b for b, counts in zip(spent.blamed, group, strict=True) if counts)
        for group in (from_memory, at_barrier)
    ]
    return LoopPass(
        indices=tuple(indices),
        depth=loop.depth,
        busy=max(pipe_cycles(inside, weights, view.gpu).values()),
        alone=spent.clocks,
        memory=shares[0],
        barrier=shares[1],
        dependency=sum(spent.blamed) - sum(shares),
        blamed=spent.blamed,
    )
