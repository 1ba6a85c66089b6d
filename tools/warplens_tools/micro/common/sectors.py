# SPDX-License-Identifier: Apache-2.0
"""Tools on the sectors that a warp's global accesses move: what is worth to move fewer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.cuda.values.forms import Form
from warplens_tools.evidence import Observation, Tier
from warplens_tools.finding import BottleneckClass, Gain
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.gain import bound_ratio, make_gain
from warplens_tools.micro.base import MicroTool
from warplens_tools.text import Span

#: Sectors over the sectors needed from which an access is uncoalesced. Nsight Compute's rule speaks at any
#: excess; 2 leaves out what is one sector too many for lack of alignment (misaligned-access).
OVERFETCHED = 2.0


class SectorTool(MicroTool):
    """A tool whose cause is how a warp's global accesses fall into sectors."""

    relevant: ClassVar[Sequence[BottleneckClass]] = ("memory", "latency")
    tiers: ClassVar[Sequence[Tier]] = ("source", "binary")
    #: Sectors over the sectors needed from which it is told.
    overfetched: ClassVar[float] = OVERFETCHED

    def is_compiled(self, warp: WarpAccess) -> bool:
        """Whether SASS, where it is at hand, has global accesses on the line: the compiler may have removed them."""
        return not self.sass or any(self.sass.global_on(line) for line in warp.lines_used)

    def sector_gain(self, found: Sequence[WarpAccess]) -> Gain | None:
        """Throughput bounds as the accesses are, over the bounds if they were coalesced."""
        if not self.sass:
            return None
        pipes, waiting = self.sass.cycles, self.view.waiting
        together = [*found, *self._alike(found)]
        ratio = bound_ratio(pipes | waiting.latency_bound(), pipes | waiting.latency_bound(_spans(together)))
        return make_gain(ratio, 1.0, max(ratio, *(w.overfetch for w in together)))

    def _alike(self, found: Sequence[WarpAccess]) -> list[WarpAccess]:
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
