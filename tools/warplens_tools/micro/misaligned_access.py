# SPDX-License-Identifier: Apache-2.0
"""misaligned-access

**What.** The lanes of a warp are side by side, but the first is not on a sector boundary: the
rows of a matrix have an odd pitch, or a header shifts the data by a few elements.

**Why it costs.** Each run of neighbouring elements straddles one sector more than it fills: 5 instead of 4
for 32 floats, 2 instead of 1 for 32 bytes, and two cache lines instead of one.

**Wrong**

```cuda
const int pitch = 1001;                        // rows begin anywhere in a sector
out[y * pitch + x] = 2.0f * in[y * pitch + x];
```

**Right**

```cuda
const int pitch = 1024;                        // rows begin on a cache line (cudaMallocPitch)
out[y * pitch + x] = 2.0f * in[y * pitch + x];
```

**Evidence.** Byte addresses of the lanes, with the offsets and pitches that the file fixes; of rows that data chooses,
where such rows begin in a sector, whichever they are. Counters tell the
sectors moved over the fewest possible on the line: they confirm the finding, bound its gain, or withdraw it.

**Threshold.** A quarter more sectors than the wanted bytes fill, on more than half of what the kernel
moves, and no access of the same array that is aligned, nor one of another array in the same loop where this one
reaches to a neighbour's element: no start of the arrays aligns a stencil. What the file does not fix counts as
aligned.

**References.** CUDA C++ Best Practices Guide, "A Sequential but Misaligned Access Pattern"; CUDA C++
Programming Guide, "Device Memory Accesses" (two-dimensional arrays).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.finding import Finding, Gain
from warplens_tools.machine.coalescing import WarpAccess
from warplens_tools.machine.rows import rows
from warplens_tools.micro.common.judges import judge_by_sectors
from warplens_tools.micro.common.sectors import OVERFETCHED, SectorTool
from warplens_tools.sass.listing import TRIPS_PER_LEVEL

_EXCESS = 1.25


class MisalignedAccess(SectorTool):
    """Rows do not begin where a sector begins."""

    code = "WL105"
    slug = "misaligned-access"
    title = "Accesses that do not begin on a sector boundary"
    avoid = "Do not cast to a wider type while the base or the pitch is not aligned to it."
    rule_words = "uncoalesced|access pattern.*global|align"
    judges = (judge_by_sectors,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the first misaligned access of the deepest loop."""
        every = [w for w in self.view.warp_accesses if self.is_compiled(w)]
        found = [w for w in every if _is_misaligned(w) and not _is_inherent(w, every)]
        if not found or 2 * _sectors(found) <= _sectors(every) or self._is_aside(found, every):
            yield from self._of_rows(every)
            return
        worst = max(found, key=lambda w: (len(w.access.loops), w.overfetch))
        text, name = self.view.said(worst.access.span), worst.access.name
        gain = self._gain(found)
        yield self.finding(
            worst.access.span,
            severity="warning" if gain is not None else "information",
            confidence="medium",
            message=(
                f"Misaligned access: {text} does not begin on a sector boundary: {worst.sectors} sectors per request "
                f"instead of {worst.ideal_sectors}."
            ),
            guidance=(
                f"Pad the rows of {name} to a multiple of 32 elements (cudaMallocPitch), or shift its start "
                "so that the "
                "first element a warp reads stands on a 128-byte boundary."
            ),
            evidence=self.sectors_seen(worst),
            gain=gain,
        )

    def _of_rows(self, every: Sequence[WarpAccess]) -> Iterator[Finding]:
        """Rows that data chooses, where they are most of what the kernel moves."""
        found = [r for r in rows(self.view) if r.length >= SECTOR_BYTES and r.overfetch >= _EXCESS]
        if not found or not self.sass:
            return
        worst = max(found, key=lambda r: (len(r.access.loops), r.overfetch))
        own = _weight(worst.access) * worst.count
        others = _sectors([w for w in every if w.access.span != worst.access.span])
        loads = self.sass.global_on(worst.access.span.line)
        if own * worst.sectors <= others or not loads or self.view.bottleneck.bound == "compute":
            return
        text, name = self.view.said(worst.access.span), worst.access.name
        ratio = (own * worst.sectors + others) / (own * worst.ideal_sectors + others)
        padded = worst.pitch % SECTOR_BYTES == 0
        yield self.finding(
            worst.access.span,
            confidence="medium",
            message=(
                f"Misaligned rows: {text} reads rows of {worst.length} bytes that do not begin on a sector boundary: "
                f"{worst.sectors:.3g} sectors per row instead of {worst.ideal_sectors}, whichever rows the data "
                "asks for."
            ),
            guidance=(
                f"Put the first row of {name} on a 128-byte boundary: pad what stands before it."
                if padded
                else f"Pad the rows of {name} to a multiple of 32 bytes, and begin the first on such a boundary."
            ),
            evidence=(
                self.view.observe(
                    "sectors per row", round(worst.sectors, 2), "", float(worst.ideal_sectors), tier="source"
                ),
                self.view.observe("global accesses on the line", float(len(loads))),
            ),
            gain=Gain.of(ratio, worst.overfetch),
        )

    def _is_aside(self, found: Sequence[WarpAccess], every: Sequence[WarpAccess]) -> bool:
        """Whether more accesses lie far apart, or at places that are not known, and may move many times as much."""
        known = {w.access.span for w in every}
        others = [a for a in self.view.global_accesses if a.span not in known and not a.few]
        far = [a for a in others if self._is_far(a)]
        return sum(map(_weight, far)) > sum(_weight(w.access) for w in found)

    def _is_far(self, access: ArrayAccess) -> bool:
        """Whether neighbouring lanes are more than a sector apart, or may be."""
        lanes = self.view.lane_values(access.index) if access.index is not None else None
        if lanes is None:
            return access.index is None or not access.index.uniform
        return max((abs(b - a) for a, b in itertools.pairwise(lanes)), default=0) > SECTOR_BYTES

    def _gain(self, found: Sequence[WarpAccess]) -> Gain | None:
        """At most the excess of sectors; little of it where the L1 still holds what a neighbour fetched."""
        bound = self.sector_gain(found)
        if bound is None:
            return None
        return Gain.of(bound.estimate, max(w.overfetch for w in found))


def _is_misaligned(warp: WarpAccess) -> bool:
    long = warp.wanted >= 32 and warp.stride is not None and abs(warp.stride) == warp.wanted / 32
    return (
        long
        and not warp.aligned
        and _EXCESS <= warp.overfetch <= OVERFETCHED
        and warp.sectors > warp.ideal_sectors
    )


def _is_inherent(warp: WarpAccess, every: Sequence[WarpAccess]) -> bool:
    """Whether no start of the arrays aligns all: others of the same array are aligned, or it reaches to a neighbour's
    element where its loop reads the element itself of another array."""
    others = [w for w in every if w.aligned]
    index = warp.access.index
    shifted = index is not None and index.constant * warp.element % SECTOR_BYTES != 0
    return any(
        w.access.name == warp.access.name
        or (shifted and w.access.loops == warp.access.loops and w.wanted == warp.wanted)
        for w in others
    )


def _sectors(found: Sequence[WarpAccess]) -> float:
    return sum(w.sectors * _weight(w.access) for w in found)


def _weight(access: ArrayAccess) -> float:
    return TRIPS_PER_LEVEL ** len(access.loops)
