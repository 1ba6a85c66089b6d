# SPDX-License-Identifier: Apache-2.0
"""Atomics at which lanes meet, and the time they lose there.

Atomics on one address are serialized: in an L2 slice for global memory, in the SM for shared
memory. A slice does a request's lanes on one sector at once if they name different words of it.

SASS has atomics wherever they were inlined from, and tells how many places their addresses can name
(`sass.value_count`), where the source does not: in functions, on members of records, of masked words.
"""

from __future__ import annotations

import collections
import functools
import math
import random
from collections.abc import Collection

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES, Gpu
from warplens_tools.cuda.facts.atomics import Atomic, atomics
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.kernel_code import KernelCode
from warplens_tools.lazily import cached_property
from warplens_tools.sass.listing import TRIPS_PER_LEVEL
from warplens_tools.sass.pipes import GLOBAL_ATOMICS, SHARED_ATOMICS, access_bytes
from warplens_tools.sass.value_count import ValueCount
from warplens_tools.text import Span

#: Bytes an L2 slice gives per cycle (A100 whitepaper: 5120 of 80 slices).
_SLICE_BYTES_PER_CLOCK = 64
_WORD = 4
#: Iterations assumed of a loop whose count the file does not fix.
_TRIPS = 32
#: Requests drawn to see how lanes meet; parts per slice from which their spread is that of a normal distribution.
_DRAWS, _MANY = 200, 20.0
#: Threads of a block where the launch is not known: the usual number.
_THREADS = 256
_FLOATING = frozenset({"F32", "F64", "F16", "F16x2", "BF16", "BF16_V2", "FTZ"})
#: What a warp that adds up before its one atomic has on the line.
_AGGREGATED = frozenset({"REDUX", "POPC", "UPOPC", "CREDUX"})


class AtomicConflict(msgspec.Struct, frozen=True):
    """An atomic at which lanes meet."""

    atomic: Atomic
    #: Lanes of a warp at the address most of them meet at, on average over even draws where data decides.
    lanes: float
    #: Addresses that all threads of the launch share; None where each block has its own.
    places: int | None
    #: Cycles of one SM that one warp takes there, weighted as `Sass.weights`.
    cycles: float
    #: As `cycles`, of atomics on each block's own copy in shared memory, where data says which place they go to.
    instead: float = 0.0

    @property
    def walks(self) -> bool:
        """Whether a thread goes through several places in the loops around it."""
        return _walked(self.atomic) > 1

    @property
    def chosen(self) -> bool:
        """Whether data decides who comes to the one place at all: how many do, only a run shows."""
        return self.atomic.guarded and self.places in (None, 1)


class AtomicConflicts:
    """The atomics of one kernel at which more than one lane meets, costliest first, those that data chooses last."""

    def __init__(self, code: KernelCode) -> None:
        self.code, self.sass, self.gpu = code, code.sass, code.gpu

    @cached_property
    def in_global(self) -> tuple[AtomicConflict, ...]:
        """Those on global memory."""
        return self._of("global")

    @cached_property
    def in_shared(self) -> tuple[AtomicConflict, ...]:
        """Those on shared memory."""
        return self._of("shared")

    def _of(self, space: str) -> tuple[AtomicConflict, ...]:
        every = [*(a for a in self._told if a.space == space), *self._hidden(space)]
        found = [m for a in every if (m := self._conflict(a)) is not None]
        return tuple(sorted(found, key=lambda m: (m.chosen, -m.cycles, m.atomic.span)))

    @cached_property
    def _told(self) -> tuple[Atomic, ...]:
        """Those that the source tells."""
        found = atomics(self.code.tree, self.code.kernel, self.code.dim3)
        return tuple(a for a in found if not self._is_misread(a))

    def _is_misread(self, atomic: Atomic) -> bool:
        """Whether SASS has data choose a place that seems to be one, as it does where a lambda's parameter names it."""
        one = not atomic.varies if atomic.index is None else atomic.index.uniform
        return one and (self._places_on_line(atomic) or 1) > 1

    def _conflict(self, atomic: Atomic) -> AtomicConflict | None:
        if atomic.leader:
            return None
        warp = self.gpu.limits.warp_size
        if atomic.together and atomic.space == "global":
            cycles, _ = self._global_clocks(atomic, 1, own=True)
            return AtomicConflict(atomic, float(warp), None, 0.0 if atomic.guarded else cycles)
        places = self._different(atomic)
        if places is None or places >= warp:
            places = self._least_places(atomic) if places is None or atomic.index is None else None
        if places is None:
            return None
        own = atomic.index is not None and any(s.kind == "block" for s in atomic.index.symbols)
        lanes = max(1.0, warp / places)
        if atomic.space == "shared":
            if atomic.index is None and places > 1:
                lanes = sector_turns(warp, places, _WORD, places * _WORD)
            return AtomicConflict(atomic, lanes, places, self._shared_clocks(atomic, lanes))
        cycles, instead = self._global_clocks(atomic, places, own=own)
        return AtomicConflict(atomic, lanes, None if own else places, cycles, instead)

    def _different(self, atomic: Atomic) -> int | None:
        """Different addresses of a warp's lanes; None where data decides."""
        if atomic.index is None:
            return None if atomic.varies else 1
        if atomic.index.uniform:
            return 1
        found = self.code.lane_values(atomic.index)
        return len(set(found)) if found is not None else None

    def _least_places(self, atomic: Atomic) -> int | None:
        """Places that data can choose among, as types and extents bound them, and masks and remainders in SASS."""
        bounds = (atomic.places, self._places_on_line(atomic) if atomic.function else None)
        return min((n for n in bounds if n is not None), default=None)

    def _places_on_line(self, atomic: Atomic) -> int | None:
        """`_bounded_places` of the instructions that an atomic of the source became."""
        opcodes = _opcodes(atomic.space)
        indices = self.sass.on_line(atomic.span.line, lambda x: x.opcode in opcodes)
        return self._bounded_places(indices, atomic.space)

    def _bounded_places(self, indices: Collection[int], space: str) -> int | None:
        """Most places that any of the atomics at `indices` can name; None where that of one is not bounded by data's
        width, or its lanes are known to be apart."""
        if not indices:
            return None
        counts = ValueCount(self.sass.instructions, self.sass.flow, in_block=space == "shared")
        apart = {p.index for p in self.sass.patterns if p.stride}
        found = [None if i in apart else counts.places(i) for i in indices]
        return max((n for n in found if n is not None), default=None) if None not in found else None

    def _hidden(self, space: str) -> list[Atomic]:
        """Atomics on a bounded number of places that the source does not tell, on the lines where they are written."""
        opcodes, lines = _opcodes(space), dict[int, list[int]]()
        for i in self.sass.where(lambda x: x.opcode in opcodes):
            x, line = self.sass.instructions[i], self.sass.written[i]
            if line is not None and not any(self.sass.table.passes(x, a.span.line) for a in self._told):
                lines.setdefault(line, []).append(i)
        found = []
        for line, indices in lines.items():
            places = self._bounded_places(indices, space)
            if places is not None and places > 1:
                depth = max(self.sass.flow.depths[i] for i in indices)
                found.append(self._hidden_atomic(space, line, places, depth))
        return found

    def _hidden_atomic(self, space: str, line: int, places: int, depth: int) -> Atomic:
        shared = [a for a in self.code.kernel.arrays if a.space == "shared"]
        one = shared[0] if space == "shared" and len(shared) == 1 else None
        extents = one.sizes if one is not None else ()
        known = [n for n in extents if n]
        if known and len(known) == len(extents):
            places = min(places, math.prod(known))
        span = self.code.line_span(line)
        return Atomic(
            function="",
            name=one.name if one is not None else f"{space} memory",
            space="shared" if space == "shared" else "global",
            element_type=one.element_type if one is not None else "",
            index=None,
            places=places,
            varies=True,
            together=False,
            leader=False,
            guarded=False,
            span=span,
            loops=(Loop(span, -1),) * depth,
        )

    def _global_clocks(self, atomic: Atomic, places: int, *, own: bool) -> tuple[float, float]:
        """`cycles` and `instead` of a conflict in global memory."""
        if not self.sass:
            return 0.0, 0.0
        costs, warp = self.gpu.costs, self.gpu.limits.warp_size
        times = executions(self.code, atomic.span, len(atomic.loops), GLOBAL_ATOMICS)
        width = type_bytes(atomic.element_type) or _WORD
        floating = any(
            x.opcode in GLOBAL_ATOMICS and _FLOATING & set(x.modifiers)
            for x in self.sass.through_line(atomic.span.line)
        )
        # Where each block has a place, as many places are in use as blocks run; where each thread goes through places
        # in a loop, warps are at different ones.
        spread = self.gpu.multiprocessors if own else _walked(atomic)
        used = spread if own else places * spread
        turns, chain = 1.0, 1.0 / used
        if not self.is_aggregated(atomic.span):
            turns = sector_turns(warp, places, width, SECTOR_BYTES)
            chain = warp / places / spread
        at_slices = turns * costs.atomic / slices_at_once(used * width, self.gpu)
        cycles = max(at_slices, chain * (costs.atomic_float if floating else costs.atomic))
        instead = 0.0
        if places > 1 and atomic.index is None:
            most = sector_turns(warp, places, width, places * width)
            rivals = math.pow(self._block_warps, costs.shared_swap_growth)
            instead = most * (costs.shared_swap * rivals if floating else costs.shared_atomic)
        return times * self.gpu.multiprocessors * cycles, times * instead

    def _shared_clocks(self, atomic: Atomic, lanes: float) -> float:
        if not self.sass:
            return 0.0
        times = executions(self.code, atomic.span, len(atomic.loops), SHARED_ATOMICS)
        costs, here = self.gpu.costs, self.sass.through_line(atomic.span.line)
        swaps = [x for x in here if x.opcode in SHARED_ATOMICS and "CAST" in x.modifiers]
        if not swaps:
            return times * costs.shared_atomic * (1.0 if self.is_aggregated(atomic.span) else lanes)
        # Every warp of the block that swaps the word in between makes the others try again.
        rivals = 1 if self._is_own_of_warp(atomic) else self._block_warps
        words = max(access_bytes(x) for x in swaps) / _WORD
        return (
            times * lanes * costs.shared_swap * math.sqrt(words) * math.pow(rivals, costs.shared_swap_growth)
        )

    @property
    def _block_warps(self) -> int:
        return -(-(self.code.threads or _THREADS) // self.gpu.limits.warp_size)

    def _is_own_of_warp(self, atomic: Atomic) -> bool:
        """Whether the words of the block's second warp are others than those of its first."""
        block = self.code.block
        if atomic.index is None or block is None or math.prod(block) <= self.gpu.limits.warp_size:
            return False
        first, second = (self.code.lane_values(atomic.index, warp) for warp in (0, 1))
        return first is not None and second is not None and set(first).isdisjoint(second)

    def is_aggregated(self, span: Span) -> bool:
        """Whether the compiler lets each warp add up first: it does for integers at an address it can see is one."""
        return any(x.opcode in _AGGREGATED for x in self.sass.through_line(span.line))


def _walked(atomic: Atomic) -> int:
    """Places that one thread goes through in the loops around an atomic."""
    return math.prod(_TRIPS if x.trips is None else max(x.trips, 1) for x in atomic.walked)


def executions(code: KernelCode, span: Span, loops: int, opcodes: Collection[str]) -> float:
    """Weighted instructions of a line; a retry loop of an atomic's own does not count as one."""
    most, sass = TRIPS_PER_LEVEL**loops, code.sass
    return sum(
        min(w, most)
        for x, w in zip(sass.instructions, sass.weights, strict=True)
        if x.opcode in opcodes and sass.table.passes(x, span.line)
    )


def _opcodes(space: str) -> frozenset[str]:
    return SHARED_ATOMICS if space == "shared" else GLOBAL_ATOMICS


@functools.cache
def sector_turns(lanes: int, places: int, width: int, sector: int) -> float:
    """Turns that L2 slices take for one request of `lanes` at random ones of `places` words of `width` bytes.

    A sector's lanes at different words are served in one turn, those at one word in as many as they are. The mean of
    many draws, always the same ones.
    """
    per_sector = max(1, sector // width)
    draw = random.Random(0)
    total = 0
    for _ in range(_DRAWS):
        at = collections.Counter(draw.randrange(places) for _ in range(lanes))
        most: dict[int, int] = {}
        for place, count in at.items():
            most[place // per_sector] = max(most.get(place // per_sector, 0), count)
        total += sum(most.values())
    return total / _DRAWS


def slices_at_once(span: int, gpu: Gpu) -> float:
    """L2 slices that work side by side on `span` neighbouring bytes: parts over the parts of the fullest slice.

    Addresses are dealt to slices by a hash, part by part: the fullest of `count` slices with `parts` has, of Poisson
    draws, the mean of their maximum.
    """
    count = max(1.0, gpu.l2_bytes_per_clock * gpu.multiprocessors / _SLICE_BYTES_PER_CLOCK)
    parts = max(1.0, span / gpu.costs.slice_bytes)
    mean = parts / count
    if mean > _MANY:
        return count * mean / (mean + 2.0 * math.sqrt(mean))
    term = below = math.exp(-mean)
    fullest: float = 0.0
    for load in range(1, 64):
        fullest += 1.0 - math.pow(below, count)
        term *= mean / load
        below = min(1.0, below + term)
    return parts / max(1.0, fullest)
