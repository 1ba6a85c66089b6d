# SPDX-License-Identifier: Apache-2.0
"""Bank conflicts of a kernel's shared-memory accesses, from their addresses as functions of `threadIdx`.

Where the source tells of a conflict, or does not tell, SASS decides if it does: the compiler may have merged
scalar accesses into wide ones, which are served in other parts of a warp.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.evidence import Tier
from warplens_tools.kernel_code import KernelCode
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

    def instructions_on(self, line: int) -> list[int]:
        """Indices of the shared-memory instructions that a line became."""
        return self.code.sass.on_line(line, lambda x: x.opcode in _SHARED)

    def extra_passes(self, found: Sequence[Conflict]) -> float:
        """Weighted passes of the shared-memory path that conflicts add to one warp's pass."""
        return sum(
            self.code.sass.weights[i] * (conflict.passes - conflict.passes / conflict.degree)
            for conflict in found
            for i in self.instructions_on(conflict.access.span.line)
        )
