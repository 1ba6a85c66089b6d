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

from warplens_tools.arch.gpu import Limits
from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.evidence import Tier
from warplens_tools.kernel_code import KernelCode
from warplens_tools.lazily import cached_property
from warplens_tools.machine.address_evidence import pattern_of
from warplens_tools.sass.addresses import AddressPattern, address_patterns
from warplens_tools.sass.banks import conflict_degree, warp_lanes, wavefronts
from warplens_tools.sass.pipes import is_load

#: Two settings of everything that is the same for all lanes: a degree must not depend on it.
_PROBES = (0, 7)
_SHARED = frozenset({"LDS", "STS", "ATOMS"})
#: A block that is as common as one along x alone, for where no launch tells which it is.
_SQUARE = (16, 16, 1)
#: Bytes that rows are padded by: of one word, or of what the widest access needs to stay aligned.
_PADS = (4, 16)


class Conflict(msgspec.Struct, frozen=True):
    """One access with its passes over the passes of a conflict-free access of the same width."""

    access: ArrayAccess
    degree: float
    passes: int
    #: The tier that tells it.
    tier: Tier = "source"
    #: Share of the block's warps that take part, over the iterations of a loop that halves or doubles its stride.
    share: float = 1.0


class HiddenConflict(msgspec.Struct, frozen=True):
    """One instruction whose conflict only SASS shows."""

    pattern: AddressPattern
    #: Passes over those of a conflict-free access, at least, and the passes.
    degree: float
    passes: int
    #: Bytes between the lanes that meet, where they are in one row of the tile, which no padding of rows parts; else 0.
    in_row: int = 0


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
        pattern = pattern_of(self.code, access, "shared") or self._widened(access)
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
        found = [self._over(access, width, block) for block in self._blocks()]
        told = [c for c in found if c is not None]
        return min(told, key=lambda c: c.degree) if len(told) == len(found) else None

    def _blocks(self) -> list[tuple[int, int, int]]:
        """The block; where no launch tells it, one of whose warps each runs along x, and a square one."""
        known = self.code.launches.lanes(self.limits.warp_size)
        if known is not None or self.code.launches.extents[0] is not None:
            return [known or self.code.launches.assumed_lanes(self.limits.warp_size)]
        return [self.code.launches.assumed_lanes(self.limits.warp_size), _SQUARE]

    def _over(self, access: ArrayAccess, width: int, block: tuple[int, int, int]) -> Conflict | None:
        """What the source tells of an access by the warps of such a block."""
        degrees = set()
        for probe in _PROBES:
            lanes = self._addresses(access, block, probe)
            if lanes is None:
                return None
            starts = [at * width for at in lanes]
            degrees.add((conflict_degree(starts, width, self.limits), wavefronts(starts, width, self.limits)))
        return Conflict(access, *degrees.pop()) if len(degrees) == 1 else None

    def _addresses(self, access: ArrayAccess, block: tuple[int, int, int], probe: int) -> list[int] | None:
        """Element of each lane of a block's first warp; None where one is not known."""
        if access.index is None:
            return None
        shared = {s.name: probe for s in access.index.symbols if s.kind not in ("thread", "derived")}
        threads = [
            {"threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z}
            for x, y, z in warp_lanes(block, self.limits.warp_size)
        ]
        lanes = [access.index.evaluate(shared | thread) for thread in threads]
        return None if None in lanes else [at for at in lanes if at is not None]

    def _widened(self, access: ArrayAccess) -> AddressPattern | None:
        """The worst of its line's instructions, where all of them are wider than the access: the compiler has merged it
        with its neighbours."""
        sass, width = self.code.sass, type_bytes(access.element_type)
        found = [
            p
            for p in sass.patterns
            if p.space == "shared"
            and sass.lines[p.index] == access.span.line
            and is_load(sass.instructions[p.index]) == access.reads
        ]
        told = [p for p in found if p.conflict is not None]
        merged = width is not None and all(p.width > max(width, 4) for p in found)
        return (
            max(told, key=lambda p: p.conflict or 0.0)
            if told and merged and len(told) == len(found)
            else None
        )

    def is_padded_away(self, conflict: Conflict, pitch: int) -> bool:
        """Whether padding rows of `pitch` elements by a word, or by 16 bytes, rids the access of half the conflict at
        least: where the lanes that meet are in one row it does not."""
        access, width = conflict.access, type_bytes(conflict.access.element_type)
        every = [self._addresses(access, block, _PROBES[0]) for block in self._blocks()]
        if pitch <= 0 or width is None or None in every:
            return True

        def least(lanes: list[int]) -> float:
            padded = [[at * width + at // pitch * pad for at in lanes] for pad in _PADS]
            return min(conflict_degree(starts, width, self.limits) for starts in padded)

        known = [lanes for lanes in every if lanes is not None]
        return all(
            least(lanes) <= conflict_degree([at * width for at in lanes], width, self.limits) / 2.0
            for lanes in known
        )

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

    @cached_property
    def hidden(self) -> tuple[HiddenConflict, ...]:
        """The shared-memory instructions that SASS knows to conflict, in program order; where no launch tells the
        block, as far as they do in a square one too."""
        sass, compiled = self.code.sass, self.code.compiled
        found = [p for p in sass.patterns if p.space == "shared" and (p.conflict or 1.0) > 1.0]
        others = dict.fromkeys((p.index for p in found), 32.0)
        if found and compiled is not None and len(self._blocks()) > 1:
            square = address_patterns(compiled, sass.flow, _SQUARE, self.limits)
            others |= {p.index: p.conflict or 1.0 for p in square if p.space == "shared"}
        return tuple(self._hidden(p, others[p.index]) for p in found)

    def _hidden(self, pattern: AddressPattern, most: float) -> HiddenConflict:
        degree, passes = pattern.conflict or 1.0, pattern.passes or 1
        least = min(degree, most)
        matrix = self.code.sass.instructions[pattern.index].opcode in ("LDSM", "STSM")
        apart = 0 if matrix else in_row(pattern, self.limits)
        return HiddenConflict(pattern, least, round(passes * least / degree), apart)

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


def in_row(pattern: AddressPattern, limits: Limits) -> int:
    """Bytes between neighbouring lanes of one row that meet in a bank: further lanes go on beyond that row."""
    at = pattern.at
    steps = [b - a for a, b in itertools.pairwise(at)]
    run = next((n for n, step in enumerate(steps) if step != steps[0]), len(steps)) + 1
    if run < 2 or run >= len(at) or steps[run - 1] <= 0 or steps[0] <= pattern.width:
        return 0
    return steps[0] if conflict_degree(at[:run], pattern.width, limits) >= 2.0 else 0
