# SPDX-License-Identifier: Apache-2.0
"""What serialises a kernel, atomics on one place and lanes that index a constant table apart, and what less "
"would gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from warplens_tools.finding import Gain
from warplens_tools.kernel_code import KernelCode
from warplens_tools.lazily import cached_property
from warplens_tools.machine.atomics import AtomicConflict, AtomicConflicts
from warplens_tools.machine.constants import ConstantReads
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.machine.single_turns import turned_weights
from warplens_tools.machine.waiting import Waiting

Resource = Literal["global atomics", "shared atomics", "constants"]


class Contention:
    """The serialised resources of one kernel, beside all that it needs."""

    def __init__(self, code: KernelCode, waiting: Waiting) -> None:
        self.code, self.sass, self.waiting = code, code.sass, waiting
        self.atomics, self.constants = AtomicConflicts(code), ConstantReads(code)

    @cached_property
    def cycles(self) -> dict[str, float]:
        """Cycles per warp by resource."""
        return {
            "global atomics": sum(m.cycles for m in self.atomics.in_global),
            "shared atomics": sum(m.cycles for m in self.atomics.in_shared),
            "constants": self.constants.cycles,
            "constant misses": self.constants.evicted,
        }

    @cached_property
    def _other(self) -> dict[str, float]:
        weights = turned_weights(self.code)
        return self.sass.cycles_at(weights) | self.waiting.traffic.cycles(weights) | self.waiting.floor

    def gain(self, resource: Resource, after: float = 0.0) -> Gain | None:
        """Gain if a resource took `after` times its cycles, constants those of other tables; None without SASS."""
        if not self.sass:
            return None
        before = self._other | self.cycles
        instead = 0.0
        if resource == "global atomics":
            instead = sum(m.instead for m in self.atomics.in_global)
        elif resource == "shared atomics":
            # Lanes that each have a word of their own still take their turns, and warps swap it under each other.
            instead = sum(m.cycles / m.lanes for m in self.atomics.in_shared)
        passes = self.constants.held if resource == "constants" else self.cycles[resource]
        ratio = bound_ratio(before, before | {resource: passes * after + instead})
        return Gain.of(ratio, ratio)

    def skewed_gain(self, found: Sequence[AtomicConflict]) -> Gain | None:
        """Gain where data has atomics of shared memory all go to one word, if each lane then had its own; the estimate
        is that of even draws. None without SASS."""
        even = self.gain("shared atomics")
        if even is None:
            return None
        alone = sum(m.cycles / m.lanes for m in found)
        after = self._other | {"shared atomics": alone}
        worst = after | {"shared atomics": alone * self.code.gpu.limits.warp_size}
        return Gain.of(even.estimate, bound_ratio(worst, after))
