# SPDX-License-Identifier: Apache-2.0
"""Time that a kernel takes however little each unit has to do: waits that the resident warps do not hide, block starts.

An SM's cycles per warp are at least what one warp needs alone, in order (`sass.latency`), over the warps that the SM
holds (Little's law), and the time in which the card starts the warp's share of a block. An SM's time for one pass of
all its resident warps through a loop is the larger of two: what the busiest pipe needs for all of them, and what one
warp needs alone. Where barriers separate the parts of the loop a block cannot overlap its own parts, so its pass takes
both, and only other blocks hide it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from warplens_tools.arch.occupancy import Limiter, Occupancy
from warplens_tools.evidence import CompiledKernel, Instruction, Observation
from warplens_tools.finding import Gain
from warplens_tools.kernel_code import KernelCode
from warplens_tools.launches import Geometry
from warplens_tools.lazily import cached_property
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.machine.traffic import MemoryTraffic
from warplens_tools.sass.flow import Flow, Loop
from warplens_tools.sass.latency import USUAL_WARPS, waits
from warplens_tools.sass.listing import TRIPS_PER_LEVEL
from warplens_tools.sass.pipes import is_load, space_of
from warplens_tools.text import Span

#: Theoretical occupancy up to which it is worth asking what limits it (KernelPro's OccupancyLimiter).
LOW_OCCUPANCY = 0.5
#: Warps a scheduler needs to issue every cycle when each waits four for its last result ("CUDA C++
#: Programming Guide", "Multiprocessor Level").
WARPS_TO_ISSUE = 4.0
#: Share of a pass alone that is spent on global memory, from which a loop waits for it.
WAITING = 0.5
#: Loads that nvcc 13 issues ahead of the first one's use where nothing keeps it from that: of 64 that a loop held, 13
#: to 16 at a time, in the SASS for sm_90.
AHEAD = 16


class Residency(msgspec.Struct, frozen=True):
    """What an SM holds at once, and the warps of one block."""

    blocks: int
    block_warps: int

    @property
    def warps(self) -> int:
        """Resident warps per SM."""
        return self.blocks * self.block_warps


class LoopPass(msgspec.Struct, frozen=True):
    """One pass of a warp through a loop. Cycles of an SM."""

    #: Of the kernel's instructions.
    indices: tuple[int, ...]
    depth: int
    #: The busiest pipe's cycles for one warp.
    busy: float
    #: One warp alone, and how much of that it waits for global memory, at barriers, and for other results.
    alone: float
    memory: float
    barrier: float
    dependency: float
    #: By instruction of `indices`: cycles in which others wait for its result.
    blamed: tuple[float, ...]


class Shortage(msgspec.Struct, frozen=True):
    """A kernel with too few bytes in flight at its theoretical occupancy."""

    compiled: CompiledKernel
    occupancy: Occupancy
    #: Bytes in flight per SM, and what the DRAM roof needs by Little's law.
    in_flight: float
    needed: float

    @property
    def gain(self) -> Gain:
        """Up to the roof, or to full occupancy, whichever is nearer."""
        most = 1.0 / self.occupancy.occupancy if self.occupancy.occupancy else 1.0
        return Gain.of(min(self.needed / self.in_flight, most) if self.in_flight else most, most)


class Waiting:
    """What one kernel waits for, and what hides it."""

    def __init__(self, code: KernelCode, traffic: MemoryTraffic) -> None:
        self.code, self.sass, self.gpu, self.traffic = code, code.sass, code.gpu, traffic

    @cached_property
    def residency(self) -> Residency | None:
        """Blocks that an SM holds, of as many as the launch gives it; None where the launch is not known."""
        found, threads, shape = self.code.occupancy, self.code.threads, self.code.usual_shape
        if found is None or not found.blocks or threads is None:
            return None
        given = -(-shape.blocks // self.gpu.multiprocessors) if shape is not None else found.blocks
        if not given or not threads:
            return None
        return Residency(min(found.blocks, given), -(-threads // self.gpu.limits.warp_size))

    @property
    def resident_warps(self) -> int:
        """Resident warps of an SM; all it can hold where the launch is not known."""
        held, known = self.residency, self.code.occupancy
        if held is not None:
            return held.warps
        return known.warps if known is not None else self.gpu.limits.max_warps

    def waits(self, loop: LoopPass, far: float = 0.0) -> bool:
        """Whether a warp waits for memory longer than all resident ones have to do, with `far` more cycles of it."""
        alone = loop.alone + far
        return loop.memory + far >= WAITING * alone and self.resident_warps * loop.busy < alone

    @property
    def _block_warps(self) -> int:
        return self.residency.block_warps if self.residency is not None else USUAL_WARPS

    @cached_property
    def innermost_passes(self) -> tuple[LoopPass, ...]:
        """Every loop that holds no other, in address order; a kernel without loops is one pass of its own."""
        flow = self.sass.flow
        if not flow.loops and flow.blocks:
            return (self.loop_pass(Loop(0, frozenset(range(len(flow.blocks))), 0)),)
        return tuple(self.loop_pass(loop) for loop in flow.innermost_loops)

    def loop_pass(self, loop: Loop, memory: float | None = None) -> LoopPass:
        """A loop's pass, with `memory` cycles for a load of global memory; those of one that the L2 has where none are
        given.

        Loops inside it count `TRIPS_PER_LEVEL` times towards `busy`, and once towards the waits.
        """
        indices = self.sass.flow.instructions_of(loop)
        inside = [self.sass.instructions[i] for i in indices]
        shares = {i: TRIPS_PER_LEVEL ** (self.sass.flow.depths[i] - loop.depth) for i in indices}
        spent = waits(inside, self.gpu, memory or self.gpu.costs.l2_wait, self._block_warps)
        from_memory = at_barrier = 0.0
        for x, blamed in zip(inside, spent.blamed, strict=True):
            if x.opcode == "BAR":
                at_barrier += blamed
            elif space_of(x) in ("global", "generic") and (is_load(x) or x.opcode in ("ATOM", "ATOMG")):
                from_memory += blamed
        return LoopPass(
            indices=tuple(indices),
            depth=loop.depth,
            busy=max(self.sass.cycles_of(shares).values()),
            alone=spent.cycles,
            memory=from_memory,
            barrier=at_barrier,
            dependency=sum(spent.blamed) - from_memory - at_barrier,
            blamed=spent.blamed,
        )

    @cached_property
    def floor(self) -> dict[str, float]:
        """Cycles of an SM per warp, weighted as `Sass.weights`: "waiting" and "blocks"; empty where the launch is not
        known."""
        held = self.residency
        if held is None:
            return {}
        starts = self.gpu.costs.block_start * self.gpu.multiprocessors
        return {"waiting": self.single_warp_cycles / held.warps, "blocks": starts / held.block_warps}

    @property
    def start(self) -> dict[str, float]:
        """Cycles of an SM per warp of a kernel without loops, in which a block starts, waits for its first load and
        ends, whatever it computes meanwhile; empty for one with loops. An SM holds all it can where the launch is not
        known."""
        if self.sass.flow.loops:
            return {}
        costs = self.gpu.costs
        warps = self.residency.warps if self.residency is not None else self.gpu.limits.max_warps
        return {"start": (costs.block_life + costs.memory_wait) / warps}

    def latency_bound(self, ideal: Collection[Span] = ()) -> dict[str, float]:
        """`MemoryTraffic.cycles` joined by `floor`: what stays where only addresses change."""
        return self.traffic.cycles(ideal=ideal) | self.floor

    @cached_property
    def single_warp_cycles(self) -> float:
        """Weighted cycles of one warp alone: in its loops, or else in all its code and the life of its block around."""
        return self.alone(lambda _, x: x)

    def alone(self, replace: Callable[[int, Instruction], Instruction | None]) -> float:
        """As `single_warp_cycles`, if every instruction became `replace(index, instruction)`; None from it removes the
        instruction."""
        flow, code = self.sass.flow, self.sass.instructions
        memory = [self._wait(share) for share in self.traffic.compulsory_shares]
        # How often loops run is not known: where there are any they are taken to outlast the code around them.
        spent = 0.0 if flow.loops else self.gpu.costs.block_life
        for depth, indices in stretches(flow):
            if flow.loops and not depth:
                continue
            # What waits for a counter does not hold up the iterations that pass it by.
            shares = self.sass.counted_shares
            for share in {shares.get(i, 1.0) for i in indices}:
                own = [i for i in indices if shares.get(i, 1.0) == share]
                kept = [(x, memory[i]) for i in own if (x := replace(i, code[i])) is not None]
                cycles = waits([x for x, _ in kept], self.gpu, [m for _, m in kept], self._block_warps).cycles
                spent += cycles * share * TRIPS_PER_LEVEL**depth
        return spent

    def floors(
        self, replace: Callable[[int, Instruction], Instruction | None]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """`floor` as it is, and with `replace` as of `alone`; empty where the launch is not known."""
        held = self.residency
        if held is None:
            return {}, {}
        return self.floor, self.floor | {"waiting": self.alone(replace) / held.warps}

    def gathered(self, loads: Collection[int], depth: int, times: int) -> float:
        """The kernel's time over that in which `loads`, of one stretch of `depth` loops, wait together, `times` passes
        at once, instead of each by itself: no more than the stretch weighs in the kernel, and than other bounds let
        show.

        Of loads that are issued together the slowest is waited for, which is one of device memory as surely as any of
        them has to go there.
        """
        flow, code = self.sass.flow, self.sass.instructions
        own = next((i for d, i in stretches(flow) if d == depth and set(loads) <= set(i)), None)
        if own is None or not loads or (flow.loops and not depth):
            return 1.0
        inside = [code[i] for i in own]
        shares = self.traffic.fresh_shares
        counted, spent = (
            waits(inside, self.gpu, [self._wait(found[i]) for i in own], self._block_warps)
            for found in (self.traffic.compulsory_shares, shares)
        )
        alone = sum(b for i, b in zip(own, spent.blamed, strict=True) if i in loads)
        known = [s for i in loads if (s := shares[i]) is not None]
        each = sum(known) / len(known) if known else None
        at_once = min(len(loads) * times, AHEAD)
        together = self._wait(None if each is None else min(each * at_once, 1.0)) * len(loads) / at_once
        weight = TRIPS_PER_LEVEL**depth
        saved = max(alone - together, 0.0) * weight
        others, warps = self.sass.cycles | self.traffic.cycles(), self.resident_warps
        before = self.single_warp_cycles - (counted.cycles - spent.cycles) * weight
        after = max(before - saved, 1.0)
        return bound_ratio(others | {"waiting": before / warps}, others | {"waiting": after / warps})

    def _wait(self, share: float | None) -> float:
        """Cycles of a load: from device memory where no cache can have it, from the L1 where one has, else from L2."""
        costs = self.gpu.costs
        return costs.l2_wait if share is None else share * costs.memory_wait + (1.0 - share) * costs.l1_wait

    def in_flight(self, warps: float) -> float:
        """Bytes in flight per SM where so many warps wait for all that they load at once."""
        return float(self.sass.loaded_bytes * warps * self.gpu.limits.warp_size)

    def shortage(self, limiter: Limiter) -> Shortage | None:
        """The shortage of in-flight memory requests that `limiter` causes; None where there is none, or it "
        "is unknown."""
        found, compiled = self.code.occupancy, self.code.compiled
        if compiled is None or not self.sass or found is None:
            return None
        if found.occupancy > LOW_OCCUPANCY or limiter not in found.limiters:
            return None
        in_flight, needed = self.in_flight(found.warps), self.gpu.needed_bytes
        return Shortage(compiled, found, in_flight, needed) if in_flight < needed else None

    def shortage_seen(self, found: Shortage) -> tuple[Observation, ...]:
        """The figures of a shortage, as evidence."""
        law = "Little's law: latency times this SM's share of the DRAM roof"
        see, share = self.code.observe, found.occupancy
        return (
            see("theoretical occupancy", round(share.occupancy, 3), "", LOW_OCCUPANCY),
            see("resident blocks per SM", float(share.blocks)),
            see("bytes in flight per SM", found.in_flight, "byte", round(found.needed), law),
        )

    def idle_ratio(self, shape: Geometry) -> float:
        """Time of the launch as it is over its time if its warps filled every SM, both from the bounded model.

        Arithmetic speeds up with the SMs in use and with the warps each scheduler can switch between; memory
        traffic with the bytes in flight (Little's law), up to the card's share per SM.
        """
        sms, limits, share = self.gpu.multiprocessors, self.gpu.limits, self.gpu.dram_bytes_per_clock
        used = min(shape.blocks, sms)
        cycles = max(self.sass.cycles.values(), default=0.0)
        resident = min(shape.warps / used, limits.max_warps)
        issue = min(1.0, resident / limits.schedulers / WARPS_TO_ISSUE)
        flying = max(self.in_flight(resident), resident * limits.warp_size) / self.gpu.needed_bytes
        most = max(self.traffic.moved().lower / share, 0.0)
        before = max(cycles * sms / used / issue, most * sms / used / max(flying, 1 / 32))
        after = max(cycles, most)
        return before / after if after else 1.0


def stretches(flow: Flow) -> list[tuple[int, list[int]]]:
    """The code outside loops and that of each loop outside the loops in it, with its depth."""
    taken: set[int] = set()
    found = []
    for loop in sorted(flow.loops, key=lambda x: -x.depth):
        own = [i for i in flow.instructions_of(loop) if i not in taken]
        taken.update(own)
        found.append((loop.depth, own))
    rest = [i for i in range(len(flow.depths)) if i not in taken and i not in flow.rare]
    return [(0, rest), *found]
