# SPDX-License-Identifier: Apache-2.0
"""How long one launch of a kernel lasts, where that is certain to be short, and what launching costs."""

from __future__ import annotations

import math
from bisect import bisect_left

import msgspec

from warplens_tools.arch.gpu import SHORTEST_KERNEL_NS
from warplens_tools.collect import metrics as names
from warplens_tools.cuda.facts.host_copies import idle_waits
from warplens_tools.cuda.facts.host_loops import HostCall, HostLoop, launch_loop
from warplens_tools.cuda.facts.launch_arguments import largest_arguments
from warplens_tools.cuda.values.loop_headers import Loop, iterations
from warplens_tools.evidence import Tier
from warplens_tools.kernel_code import KernelCode
from warplens_tools.launches import Geometry
from warplens_tools.lazily import cached_property
from warplens_tools.machine.traffic import MemoryTraffic
from warplens_tools.sass.pipes import space_of

#: Bytes per second of one direction of the link: PCIe 4.0 x16 moves 25 GB/s of its 31.5 GB/s after protocol.
LINK_BYTES_PER_SECOND = 25e9
#: The fact that is missing of a loop whose iterations the host may spend with work of its own.
HOST_WORK = "what the host does in an iteration"
#: Iterations of a loop from which its launches are worth saving.
FEWEST_ITERATIONS = 16


class Repeated(msgspec.Struct, frozen=True):
    """A launch that a host loop repeats. `duration_ns` is None where it is not known to be short."""

    loop: HostLoop
    #: Calls in the loop that make the host wait for work of the same iteration.
    waits: tuple[HostCall, ...]
    shape: Geometry | None
    duration_ns: float | None


class LaunchCost:
    """What launching one kernel costs, against what it does."""

    def __init__(self, code: KernelCode, traffic: MemoryTraffic) -> None:
        self.code, self.traffic, self.costs = code, traffic, code.gpu.costs

    @cached_property
    def repeated(self) -> Repeated | None:
        """The kernel's launch in a host loop; None where no loop launches it.

        Loops that take times, record a graph, or have a constant few iterations do not count.
        """
        tree = self.code.tree
        for site in self.code.sites:
            loop = launch_loop(tree, site)
            if loop is not None and not loop.timed and not loop.captured and not self._is_brief(loop):
                return Repeated(loop, idle_waits(tree, loop), self.code.shape, self.duration)
        return None

    def _is_brief(self, loop: HostLoop) -> bool:
        bound = int(loop.bound) if loop.bound.isdigit() else None
        bound = next((c.value for c in self.code.model.constants if c.name == loop.bound), bound)
        return bound is not None and bound < FEWEST_ITERATIONS

    @cached_property
    def bounds(self) -> str:
        """Why the kernel's launches take longer than the kernel; "" where that is not certain."""
        repeated = self.repeated
        if repeated is None or repeated.duration_ns is None:
            return ""
        cost, doing = (
            (self.costs.host_wait_ns, "waiting for it")
            if repeated.waits
            else (self.costs.launch_ns, "launching it")
        )
        # Another kernel of the loop may be long enough to hide what launching this one costs.
        if repeated.duration_ns >= cost or repeated.loop.launches > 1:
            return ""
        return (
            f"a host loop launches it for about {repeated.duration_ns / 1e3:.1f} us of work each time, and "
            f"{doing} costs {cost / 1e3:.1f} us"
        )

    def work_ns(self, loop: HostLoop) -> float | None:
        """Nanoseconds that the device works in an iteration of `loop` if all its kernels last as long as this one; None
        where that is not known."""
        return None if self.duration is None else max(loop.launches, 1) * self.duration

    def host_ns(self, loop: HostLoop, copies: int) -> float:
        """Nanoseconds in which the host asks for an iteration's kernels and copies: no iteration is shorter."""
        return (max(loop.launches, 1) + copies) * self.costs.launch_ns

    @cached_property
    def duration(self) -> float | None:
        """Nanoseconds of one launch: as measured, else an estimate where grid and loops are constant."""
        seen, counters = self.code.evidence.timing, self.code.evidence.counters
        if seen is not None:
            return seen.median_ns
        if counters is not None and (counted := names.value(counters, names.DURATION)) is not None:
            return max(counted - self.costs.cold_ns, SHORTEST_KERNEL_NS)
        return self._modelled(float(self.most_trips)) if self.most_trips else self._modelled(None)

    @cached_property
    def counted(self) -> float | None:
        """As `duration`, of all that the kernel does: None where it was measured, or loops within those around its
        accesses turn as often as nothing tells. Bodies that the compiler wrote several times over count once."""
        known = max((len(access.loops) for access in self.code.accesses), default=0)
        if self.duration_origin[0] != "binary" or max(self.code.sass.flow.depths, default=0) > known:
            return None
        return self._modelled(max(self.most_trips / self._copies, 1.0) if self.most_trips else None)

    def _modelled(self, turns: float | None) -> float | None:
        """Nanoseconds of the largest launch by the bounded model, its loops' bodies executed so often."""
        shape, sass, gpu = self.code.usual_shape, self.code.sass, self.code.gpu
        if shape is None or not shape.blocks or not sass or (turns is None and any(sass.flow.depths)):
            return None
        weight = [turns or 1.0 if depth else 1.0 for depth in sass.flow.depths]
        cycles = max(sass.cycles_at(weight).values())
        used = min(shape.blocks, gpu.multiprocessors)
        # What idle SMs do not draw is there for the others, as far as their own way to the L2 goes.
        drawn = min(gpu.dram_bytes_per_clock * gpu.multiprocessors / used, gpu.l2_bytes_per_clock)
        cycles = max(cycles, self.traffic.moved(weight).upper / max(drawn, gpu.dram_bytes_per_clock))
        per_sm = math.ceil(shape.warps / used)
        # A lone warp still waits for each of its instructions: four cycles for arithmetic at the least.
        latency = 4.0 * sum(weight)
        return SHORTEST_KERNEL_NS + max(per_sm * cycles, latency) / gpu.clock_hz * 1e9

    @property
    def _copies(self) -> float:
        """How often the compiler wrote the bodies of the loops one after the other: global accesses that stand in its
        loops, over those in the text's."""
        sass = self.code.sass
        written = [access.span.line for access in self.code.global_accesses if access.loops]
        placed = zip(sass.instructions, sass.lines, sass.flow.depths, strict=True)
        compiled = sum(bool(d) and n in written and space_of(x) == "global" for x, n, d in placed)
        return max(compiled / len(written), 1.0) if written else 1.0

    @property
    def duration_origin(self) -> tuple[Tier, str]:
        """The tier that `duration` is of, and what gave it."""
        timing, counters = self.code.evidence.timing, self.code.evidence.counters
        if timing is not None:
            return "timing", timing.origin
        if counters is not None and names.value(counters, names.DURATION) is not None:
            return "counters", f"{counters.origin}, less {self.costs.cold_ns:.0f} ns for its cold start"
        return "binary", "bounded model"

    @cached_property
    def busy_blocks(self) -> int | None:
        """Blocks of the largest launch that have a part in the deepest nest of loops, where those deal out elements by
        the block's number: the others find none left, and leave. None where the launch is not known."""
        shape, grid = self.code.shape, self.code.launches.grid
        if shape is None:
            return None
        loops = max((access.loops for access in self.code.accesses), key=len, default=())
        busy = shape.blocks
        for axis in "xyz":
            number, size = f"blockIdx.{axis}", grid.get(f"gridDim.{axis}")
            dealing = next((x for x in loops if x.first is not None and x.first.mentions(number)), None)
            if dealing is not None and size is not None and size > 1:
                busy = busy * self._at_work(dealing, number, size) // size
        return busy

    def _at_work(self, loop: Loop, number: str, size: int) -> int:
        """Of so many block numbers those that come to the loop's body: the later ones start farther on."""

        def turns(at: int) -> int | None:
            return iterations(loop, {**self._of_largest, number: at})

        if turns(0) is None or turns(size - 1) is None:
            return size
        return bisect_left(range(size), True, key=lambda at: not turns(at))

    @cached_property
    def most_trips(self) -> int | None:
        """Iterations of the kernel's deepest nest of loops around an access; None where one is not constant and no
        launch tells."""
        most = 1
        for access in self.code.accesses:
            trips = [self._trips(loop) for loop in access.loops]
            known = [t for t in trips if t is not None]
            if len(known) != len(trips):
                return None
            most = max(most, math.prod(known))
        return most if most > 1 else None

    def _trips(self, loop: Loop) -> int | None:
        """Iterations of a loop; else those of the first thread in the launch that is passed most."""
        return loop.trips if loop.trips is not None else iterations(loop, self._of_largest)

    @cached_property
    def _of_largest(self) -> dict[str, int]:
        first = {f"{of}.{axis}": 0 for of in ("threadIdx", "blockIdx") for axis in "xyz"}
        sizes = {
            f"blockDim.{axis}": n for axis, n in zip("xyz", self.code.dim3, strict=True) if n is not None
        }
        passed = largest_arguments(self.code.tree, self.code.model, self.code.kernel)
        return {**passed, **first, **sizes, **self.code.launches.grid}
