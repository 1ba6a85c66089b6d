# SPDX-License-Identifier: Apache-2.0
"""Tools on the sectors that a warp's global accesses move: why there are so many, and what fewer are worth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.cuda.values.forms import ONE, Form
from warplens_tools.evidence import Observation, Tier
from warplens_tools.finding import BottleneckClass, Gain
from warplens_tools.machine.apart import walks_record
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.shuffled import is_summed_by_lanes, shuffled
from warplens_tools.text import Span

#: Sectors over the sectors needed from which an access is uncoalesced. Nsight Compute's rule speaks at any
#: excess; 2 leaves out what is one sector too many for lack of alignment (misaligned-access).
OVERFETCHED = 2.0


#: "field": one of the fields of each record. "chunk": a contiguous chunk for each thread. "read" and
#: "write": neighbouring lanes are far apart for another reason.
Cause = Literal["field", "chunk", "read", "write"]

#: Overfetch from which an access is reported too where its sectors keep the L1 or the L2 this share of the
#: busiest unit's time (Nsight Compute calls a unit busy from 60 % of its peak on).
SCATTERED, NEAR = 4.0, 0.6
#: The gain at most, over that of the sectors alone: what a sector costs that is written in part, over a whole one
#: (21 times was measured of stores a line apart, docs/benchmarks/planted_card.json, of which few programs are made).
PARTLY = 2.0
#: Rows of a block at least eight threads wide that a warp spans.
FEW_ROWS = 4
#: Bytes of a row of single bytes from which another layout of the lanes gains 1.6 and more (see `is_of_bytes`).
_LONG_ROW = 64
#: Bytes between lanes up to which a constant stride counts as a record laid out by hand.
RECORD_BYTES = 128
#: Bytes between lanes from which the distance is none but that of a number that stands for an unknown one.
_UNTOLD = 1 << 32


class SectorTool(MicroTool):
    """A tool whose cause is how a warp's global accesses fall into sectors."""

    relevant: ClassVar[Sequence[BottleneckClass]] = ("memory", "latency")
    tiers: ClassVar[Sequence[Tier]] = ("source", "binary")
    family: ClassVar[str] = "the same layout of lanes"

    def is_compiled(self, warp: WarpAccess) -> bool:
        """Whether SASS, where it is at hand, has global accesses on the line: the compiler may have removed them."""
        return not self.sass or any(self.sass.global_on(line) for line in warp.lines_used)

    def sector_gain(self, found: Sequence[WarpAccess]) -> Gain | None:
        """Throughput bounds as the accesses are, over the bounds if they were coalesced."""
        if not self.sass:
            return None
        # Atomics that meet at one place take their time whatever the layout.
        pipes, waiting = self.sass.cycles | self.view.contention.cycles, self.view.waiting
        together = [*found, *self.alike(found)]
        after = pipes | waiting.latency_bound(_spans(together))
        if is_summed_by_lanes(self.view, found[0]):
            added = shuffled(self.view, found[0])
            after |= {name: after.get(name, 0.0) + more for name, more in added.items()}
        ratio = max(1.0, bound_ratio(pipes | waiting.latency_bound(), after))
        most = max(w.overfetch for w in together)
        ratio = min(ratio, PARTLY * most)
        # A record of a few elements wastes little, a long row all that is said: in between is what to expect.
        expected = math.sqrt(ratio) if all(map(self.walks_record, found)) else ratio
        return Gain.of(expected, max(ratio, most))

    def walks_record(self, warp: WarpAccess) -> bool:
        """Whether each thread goes through a record of unknown length, the next lane through the next one."""
        index = warp.access.index
        return index is not None and walks_record(index, warp.access.loops, self.view.arguments)

    def is_of_bytes(self, warp: WarpAccess) -> bool:
        """Whether each thread goes through a row of single bytes whose length is not told, nor long in a run of the
        program without arguments.

        Measured on H100 of such rows: 1.0 to 1.05 times by other layouts at 10 and 25 bytes a row, whose sectors
        neighbouring lanes share and the L1 keeps; 1.6 to 2.8 times at 64, 2.7 to 5.7 at 128.
        """
        apart = growth_along_lanes(warp)
        if apart is None or apart.evaluate(self.view.arguments) is not None:
            return False
        usual = apart.evaluate(self.view.usual_arguments)
        long = usual is not None and abs(usual) >= _LONG_ROW
        return not long and warp.element == 1 and warp.reused_by == "loop"

    def most(self, warp: WarpAccess) -> str:
        """ "32", or "up to 32" where the length of a thread's record decides it."""
        is_open = self.walks_record(warp) or self.is_of_bytes(warp)
        return f"{'up to ' if is_open else ''}{warp.sectors}"

    def alike(self, found: Sequence[WarpAccess]) -> list[WarpAccess]:
        """Others that lie as far apart along the lanes as one of `found`, in as many loops: what deals the elements
        anew to the threads repairs them too."""
        places = {(g, len(w.access.loops)) for w in found if (g := growth_along_lanes(w)) is not None}
        spans = _spans(found)
        return [
            w
            for w in self.view.warp_accesses
            if w.access.span not in spans
            and w.overfetch >= OVERFETCHED
            and (growth_along_lanes(w), len(w.access.loops)) in places
        ]

    def sectors_seen(self, worst: WarpAccess) -> tuple[Observation, ...]:
        """Sectors per request from the addresses, and the instructions that SASS has on the line."""
        why = f"sectors of {SECTOR_BYTES} bytes that hold the {worst.wanted} bytes a warp wants"
        seen = self.view.observe(
            "sectors per request", float(worst.sectors), "", float(worst.ideal_sectors), why, tier=worst.tier
        )
        if not self.sass:
            return (seen,)
        count = sum(len(self.sass.global_on(line)) for line in worst.lines_used)
        return seen, self.view.observe("global accesses on the line", float(count), "instructions")


def growth_along_lanes(warp: WarpAccess) -> Form | None:
    """How far apart neighbouring lanes are, in elements as the source spells it; None where it is not told."""
    return warp.access.index.growth("threadIdx.x") if warp.access.index is not None else None


def _spans(found: Iterable[WarpAccess]) -> frozenset[Span]:
    return frozenset(w.access.span for w in found)


def cause_of(warp: WarpAccess) -> Cause | None:
    """Why the access is uncoalesced; None where it is not."""
    access = warp.access
    if warp.overfetch < OVERFETCHED or access.atomic or _is_out_of_line(warp):
        return None
    if _is_window(warp):
        # Along the lanes, what a turn leaves of the sectors serves the next one; across them, rows lie under lanes.
        first = access.loops[-1].first
        return None if first is None or first.mentions("threadIdx.x") else "read"
    if _is_chunk(warp):
        # A stretch inside one sector is fetched once and used at once.
        return "chunk" if warp.stride is None or abs(warp.stride) > SECTOR_BYTES else None
    if _is_field(warp):
        # Where every field is used, the same sectors serve the next access from L1.
        return "field" if warp.dram_sectors * SECTOR_BYTES >= OVERFETCHED * warp.wanted else None
    if _is_in_rows_of_block(warp):
        return None  # Neighbours along x are side by side: the block is narrow (`narrow_block`), the layout is right.
    if warp.sectors <= FEW_ROWS and warp.ideal_sectors == 1 and _is_one_along_x(warp):
        return (
            None  # A word for each row of the block that the warp spans: no layout of the lanes needs fewer.
        )
    if warp.stride is None and warp.reused_by == "nobody" and not warp.in_rows:
        return None  # Nobody wants what lies between the lanes: no other layout of the threads would use it.
    if access.writes and _is_of_own_steps(warp):
        return None  # Each lane goes by steps of its own: no extent is there along which a tile could be written.
    return "write" if access.writes and not access.reads else "read"


def _is_of_own_steps(warp: WarpAccess) -> bool:
    """Whether lanes go by the square of their number, or by steps that grow with it: `i * i + y`, `i + j + 2 * i * j`
    in a loop over j."""
    index = warp.access.index
    counters = {loop.counter for loop in warp.access.loops if loop.counter}
    return index is not None and any(
        sum(s.mentions("threadIdx.x") for s in symbols) > 1
        or (any(s.mentions("threadIdx.x") for s in symbols) and any(s.name in counters for s in symbols))
        for symbols, _ in index.terms
    )


def _is_out_of_line(warp: WarpAccess) -> bool:
    """Whether lanes are side by side in rows of a sector and more, each of which only begins within one."""
    growth = growth_along_lanes(warp)
    rows = growth is not None and growth.value in (1, -1) and warp.wanted >= warp.runs * SECTOR_BYTES
    return rows and warp.sectors <= warp.ideal_sectors + warp.runs


def _is_in_rows_of_block(warp: WarpAccess) -> bool:
    """Whether lanes are side by side along threadIdx.x, in several rows as a block of less than a warp's width has."""
    growth = growth_along_lanes(warp)
    return growth is not None and growth.value in (1, -1) and warp.runs > 1


def _is_one_along_x(warp: WarpAccess) -> bool:
    growth = growth_along_lanes(warp)
    return growth is not None and growth.value == 0


def _is_chunk(warp: WarpAccess) -> bool:
    """Each lane goes through neighbouring elements, from a start of its own."""
    index, loops = warp.access.index, warp.access.loops
    if warp.reused_by != "loop" or index is None or not loops:
        return False
    inner = loops[-1]
    starts_apart = inner.first is not None and not inner.first.uniform
    return starts_apart or bool(index.coefficient("threadIdx.x")) or _is_share(index.growth("threadIdx.x"))


def _is_window(warp: WarpAccess) -> bool:
    """Whether each thread goes through rows and columns, element by element, from a place of its own: a pooling window,
    the pixels that one is made of."""
    inner = warp.access.loops[-2:]
    return (
        len(inner) > 1
        and _is_chunk(warp)
        and all(x.step == ONE and x.first is not None and not x.first.uniform for x in inner)
    )


def _is_share(apart: Form | None) -> bool:
    """Whether lanes are as far apart as a problem over the number of threads: `n / (gridDim.x * blockDim.x)`."""
    divided = [s for s in (apart.symbols if apart is not None else ()) if s.operation == "/"]
    return any(x.kind == "grid size" for s in divided for x in s.operands[1].symbols)


def _is_field(warp: WarpAccess) -> bool:
    if warp.reused_by not in ("nobody", "fields") or warp.stride is None:
        return False
    index = warp.access.index
    by_hand = index is not None and bool(index.coefficient("threadIdx.x"))
    apart = abs(warp.stride)
    if apart == warp.element:
        return warp.used < warp.element
    return by_hand and apart <= RECORD_BYTES


def lane_words(warp: WarpAccess) -> str:
    """How far apart neighbouring lanes are, in words."""
    if warp.stride is None:
        return "neighbouring lanes are not side by side"
    growth = growth_along_lanes(warp)
    if growth is None:
        return "neighbouring lanes are not side by side"
    if growth.value is None:
        # The distance hangs on what only a launch knows.
        return f"neighbouring lanes are {_spelled(growth)} elements apart"
    if abs(warp.stride) >= _UNTOLD:
        return "neighbouring lanes are not side by side"
    return f"neighbouring lanes are {abs(warp.stride)} bytes apart"


def _spelled(growth: Form) -> str:
    """ "4 * n * m + 1"; symbols as the source names them, whichever way the lanes run."""
    sign = -1 if all(factor < 0 for _, factor in growth.terms) else 1
    terms = [
        [*([str(sign * factor)] if sign * factor != 1 or not symbols else []), *(s.name for s in symbols)]
        for symbols, factor in growth.terms
    ]
    return " + ".join(" * ".join(parts) for parts in terms)
