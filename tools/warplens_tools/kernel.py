# SPDX-License-Identifier: Apache-2.0
"""One kernel as everything that looks at it sees it: what is known of it, and what the machine makes of it."""

from __future__ import annotations

import msgspec

from warplens_tools.finding import Bottleneck, Finding
from warplens_tools.kernel_code import KernelCode
from warplens_tools.lazily import cached_property
from warplens_tools.machine.coalescing import WarpAccess, warp_accesses
from warplens_tools.machine.conflicts import BankConflicts
from warplens_tools.machine.contention import Contention
from warplens_tools.machine.counted import Counted, counted
from warplens_tools.machine.demand import Demand, demand_of
from warplens_tools.machine.launch_cost import LaunchCost
from warplens_tools.machine.reuse import Reuse
from warplens_tools.machine.traffic import MemoryTraffic
from warplens_tools.machine.waiting import Waiting

UNCLASSIFIED = Bottleneck("unknown", "low", "not classified yet")


class KernelView(KernelCode, frozen=True, dict=True, eq=False):
    """All a tool may look at: the kernel, its file, the GPU, the evidence present, and the class it was given.

    What is worked out of these is a property: made when it is first asked for, kept as long as the view.
    """

    bottleneck: Bottleneck = UNCLASSIFIED

    def classified(self, bottleneck: Bottleneck) -> KernelView:
        """The view with a class; what was worked out goes along, but for findings, which may rest on the class."""
        found = msgspec.structs.replace(self, bottleneck=bottleneck)
        found.__dict__.update({name: kept for name, kept in self.__dict__.items() if name != "checked"})
        return found

    @cached_property
    def checked(self) -> dict[type, tuple[Finding, ...]]:
        """By tool what it finds here, of those that were asked: several ask what another one says."""
        return {}

    @cached_property
    def warp_accesses(self) -> tuple[WarpAccess, ...]:
        """The global accesses as a full warp makes them, in text order."""
        return warp_accesses(self)

    @cached_property
    def counted(self) -> Counted | None:
        """Its instructions with what Nsight Compute counted at each; None where this build's code was not counted."""
        return counted(self)

    @cached_property
    def conflicts(self) -> BankConflicts:
        """Bank conflicts in shared memory."""
        return BankConflicts(self)

    @cached_property
    def reuse(self) -> Reuse:
        """Elements that are read again and again."""
        return Reuse(self)

    @cached_property
    def traffic(self) -> MemoryTraffic:
        """Traffic of global memory, and the cycles that takes."""
        return MemoryTraffic(self, self.warp_accesses, self.reuse.sweeps)

    @cached_property
    def waiting(self) -> Waiting:
        """Latencies against the warps that hide them."""
        return Waiting(self, self.traffic)

    @cached_property
    def contention(self) -> Contention:
        """Atomics on one place, and constant tables indexed apart."""
        return Contention(self, self.waiting)

    @cached_property
    def launching(self) -> LaunchCost:
        """What launching it costs, against what it does."""
        return LaunchCost(self, self.traffic)

    @cached_property
    def demand(self) -> Demand:
        """Cycles that a warp's pass needs of each resource."""
        return demand_of(self, self.traffic, self.conflicts, self.contention)
