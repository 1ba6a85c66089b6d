# SPDX-License-Identifier: Apache-2.0
"""Bank conflicts of a kernel's shared-memory accesses, from their addresses as functions of `threadIdx`.

Where the source tells of a conflict, or does not tell, SASS decides if it does: the compiler may have merged
scalar accesses into wide ones, which are served in other parts of a warp.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.evidence import Tier
from warplens_tools.kernel_code import KernelCode
from warplens_tools.lazily import cached_property
from warplens_tools.machine.address_evidence import pattern_of
from warplens_tools.sass.banks import conflict_degree, warp_lanes, wavefronts

#: Two settings of everything that is the same for all lanes: a degree must not depend on it.
_PROBES = (0, 7)
_SHARED = frozenset({"LDS", "STS", "ATOMS"})


class Conflict(msgspec.Struct, frozen=True):
    """One access with its passes over the passes of a conflict-free access of the same width."""

    access: ArrayAccess
    degree: float
    passes: int
    #: The tier that tells it.
    tier: Tier = "source"
    #: Share of the block's warps that take part, over the iterations of a loop that halves or doubles its stride.
    share: float = 1.0


class BankConflicts:
    """The shared-memory accesses of one kernel."""

    def __init__(self, code: KernelCode) -> None:
        self.code, self.limits = code, code.gpu.limits

    @cached_property
    def every(self) -> tuple[Conflict, ...]:
        """Every access whose addresses are known well enough, in text order; `degree` is 1 where it has no conflict."""
        found = [self._as_compiled(a, self.in_source(a)) for a in self.code.accesses if a.space == "shared"]
        return tuple(c for c in found if c is not None)

    def _as_compiled(self, access: ArrayAccess, conflict: Conflict | None) -> Conflict | None:
        """What SASS tells of an access that the source does not tell or calls a conflict."""
        if conflict is not None and conflict.degree <= 1.0:
            return conflict
        pattern = pattern_of(self.code, access, "shared")
        if pattern is None or pattern.conflict is None or pattern.passes is None:
            return conflict
        if conflict is not None and (conflict.degree, conflict.passes) == (pattern.conflict, pattern.passes):
            return conflict
        return Conflict(access, pattern.conflict, pattern.passes, "binary")

    def in_source(self, access: ArrayAccess) -> Conflict | None:
        """What the source tells of an access; None where its address is not known well enough."""
        width = type_bytes(access.element_type)
        if access.index is None or width is None:
            return None
        # What halves or doubles has no counter: its symbol is of the variable itself.
        uncounted = {f"{loop.variable}@{loop.offset}" for loop in access.loops if not loop.counter}
        doubling = uncounted & {s.name for s in access.index.symbols}
        if doubling:
            return self._through_powers(access, width, doubling)
        # Where the block is not known a warp is taken to run along x: true of every block 32 or more wide.
        block = self.code.launches.assumed_lanes(self.limits.warp_size)
        degrees = set()
        for probe in _PROBES:
            shared = {s.name: probe for s in access.index.symbols if s.kind not in ("thread", "derived")}
            lanes = []
            for x, y, z in warp_lanes(block, self.limits.warp_size):
                at = access.index.evaluate(shared | {"threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z})
                if at is None:
                    return None
                lanes.append(at * width)
            degrees.add((conflict_degree(lanes, width, self.limits), wavefronts(lanes, width, self.limits)))
        return Conflict(access, *degrees.pop()) if len(degrees) == 1 else None

    def _through_powers(self, access: ArrayAccess, width: int, doubling: Collection[str]) -> Conflict | None:
        """As `in_source` in a loop whose variable is doubled or halved: the mean over its powers of two.

        Lanes whose element lies beyond the array do not take part: a condition keeps them out.
        """
        array = next((a for a in self.code.kernel.arrays if a.name == access.name), None)
        size = math.prod(n or 0 for n in array.sizes) if array is not None else 0
        threads, index = self.code.threads, access.index
        if not size or threads is None or index is None:
            return None
        x, y, z = self.code.launches.assumed_lanes(threads)
        same = {s.name: 0 for s in index.symbols if s.kind not in ("thread", "derived")}
        same |= {"blockDim.x": x, "blockDim.y": y, "blockDim.z": z}
        powers = [1 << n for n in range(max(threads // 2, 1).bit_length())]
        warps = [range(n, min(n + 32, x * y * z)) for n in range(0, x * y * z, self.limits.warp_size)]
        taking: list[list[int]] = []
        for power, warp in itertools.product(powers, warps):
            values = same | dict.fromkeys(doubling, power)
            lanes = [
                index.evaluate(
                    {**values, "threadIdx.x": n % x, "threadIdx.y": n // x % y, "threadIdx.z": n // (x * y)}
                )
                for n in warp
            ]
            if None in lanes:
                return None
            taking.append([at * width for at in lanes if at is not None and 0 <= at < size])
        busy = [lanes for lanes in taking if lanes]
        passes = sum(wavefronts(lanes, width, self.limits) for lanes in busy)
        ideal = sum(
            wavefronts(lanes, width, self.limits) / conflict_degree(lanes, width, self.limits)
            for lanes in busy
        )
        if not ideal:
            return None
        return Conflict(access, passes / ideal, round(passes / len(busy)), share=len(busy) / len(taking))

    def instructions_on(self, line: int) -> list[int]:
        """Indices of the shared-memory instructions that a line became."""
        return self.code.sass.on_line(line, lambda x: x.opcode in _SHARED)

    def extra_passes(self, found: Sequence[Conflict]) -> float:
        """Weighted passes of the shared-memory path that conflicts add to one warp's pass."""
        return sum(
            conflict.share * self.code.sass.weights[i] * (conflict.passes - conflict.passes / conflict.degree)
            for conflict in found
            for i in self.instructions_on(conflict.access.span.line)
        )
