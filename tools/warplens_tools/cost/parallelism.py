# SPDX-License-Identifier: Apache-2.0
"""Whether enough memory requests are in flight to reach the DRAM roof: Little's law on resident warps."""

from __future__ import annotations

import msgspec

from warplens_tools.arch.occupancy import Limiter, Occupancy
from warplens_tools.cost.gain import make_gain
from warplens_tools.evidence import CompiledKernel, Observation
from warplens_tools.finding import Gain
from warplens_tools.launches import theoretical_occupancy
from warplens_tools.memory.traffic import dram_bytes_per_clock
from warplens_tools.sass.flow import Flow, analyse
from warplens_tools.sass.pipes import access_bytes, is_load, space_of
from warplens_tools.view import KernelView

#: Clocks from a global load to its data when it misses all caches. Microbenchmark studies of sm_70 to
#: sm_90 measure 430 to 660 unloaded; the middle is taken.
MEMORY_LATENCY_CLOCKS = 550.0
#: Theoretical occupancy up to which it is worth asking what limits it (KernelPro's OccupancyLimiter).
LOW_OCCUPANCY = 0.5
#: Use of device memory, per cent of its peak, at which enough was in flight (KernelPro's HighDRAMThroughput).
ENOUGH_DRAM = 80.0


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
        return make_gain(min(self.needed / self.in_flight, most) if self.in_flight else most, 1.0, most)

    def observations(self, origin: str) -> tuple[Observation, ...]:
        """The figures, as evidence."""
        law = "Little's law: latency times this SM's share of the DRAM roof"
        return (
            Observation(
                "binary",
                origin,
                "theoretical occupancy",
                round(self.occupancy.occupancy, 3),
                "",
                LOW_OCCUPANCY,
            ),
            Observation("binary", origin, "resident blocks per SM", float(self.occupancy.blocks)),
            Observation(
                "binary", origin, "bytes in flight per SM", self.in_flight, "byte", round(self.needed), law
            ),
        )


def shortage(view: KernelView, limiter: Limiter) -> Shortage | None:
    """The shortage of in-flight memory requests that `limiter` causes; None where there is none, or it is unknown."""
    compiled = view.evidence.worst
    if compiled is None or not compiled.instructions:
        return None
    found = theoretical_occupancy(view.kernel, view.model, compiled, view.gpu)
    if found is None or found.occupancy > LOW_OCCUPANCY or limiter not in found.limiters:
        return None
    per_thread = loads_in_flight(compiled, analyse(compiled.instructions))
    in_flight = float(per_thread * found.warps * view.gpu.limits.warp_size)
    needed = MEMORY_LATENCY_CLOCKS * dram_bytes_per_clock(view.gpu)
    return Shortage(compiled, found, in_flight, needed) if in_flight < needed else None


def loads_in_flight(compiled: CompiledKernel, flow: Flow) -> int:
    """Bytes of global loads one thread has between loop iterations: those of the deepest loop that loads."""
    loads = [i for i, x in enumerate(compiled.instructions) if space_of(x) == "global" and is_load(x)]
    deepest = max((flow.depths[i] for i in loads), default=0)
    return sum(access_bytes(compiled.instructions[i]) for i in loads if flow.depths[i] == deepest)
