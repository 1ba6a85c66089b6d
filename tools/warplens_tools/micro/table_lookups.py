# SPDX-License-Identifier: Apache-2.0
"""table-lookups

**What.** A thread looks up value after value in a table in shared memory, each at a place that data chooses: an S-box,
a code book, a lookup table of a quantised format, a binary search.

**Why it costs.** A request of 32 lanes is served a bank at a time: where data spreads them evenly over a table of more
than 32 words, some bank gets three or four of them, and the request takes as many wavefronts. Each lookup is an
instruction of the load/store pipe besides, which takes 32 lanes a cycle, a quarter of what arithmetic does.

**Wrong**

```cuda
__shared__ uint32_t table[256];
x = table[x & 255] ^ table[256 + (x >> 8 & 255)] ^ key;      // 16 lookups a round, 3.4 wavefronts each
```

**Right**

```cuda
__shared__ uint32_t table[256][32];                          // a copy for each lane: no conflicts
x = table[x & 255][lane] ^ ...;
int nibble = __shfl_sync(~0u, entry, code);                  // 16 or 32 entries: a register of each lane
```

**Evidence.** In SASS, loads from shared memory whose address comes of what was loaded or of a condition on data; the
size of the table where the source declares it; the time of the load/store pipe with the wavefronts of random places
against that of all else.

**Threshold.** Eight such loads in a loop or a thread, and the load/store pipe busiest of all. Information: how evenly
data spreads the lanes, only a run shows. A table of 32 words has no conflicts, nor has one with
a copy for each bank: both are left alone.

**References.** CUDA C++ Programming Guide, "Shared Memory"; C. Tezcan, "Optimization of Advanced Encryption Standard
on Graphics Processing Units", IEEE Access 9 (2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.lane_names import lane_names, mentions_lanes
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.finding import Finding, count
from warplens_tools.lazily import cached_property
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_wavefronts
from warplens_tools.sass.banks import drawn_wavefronts
from warplens_tools.sass.varying import gathering

#: Lookups from which they are many.
MANY = 8
#: Words of a table whose size the source does not tell: from a few hundred on they make no difference.
_WORDS = 1024


class TableLookups(MicroTool):
    """Loads of shared memory at places that data chooses."""

    code = "WL119"
    slug = "table-lookups"
    title = "Lookups in a table of shared memory bind the kernel"
    avoid = (
        "Do not move the table to __constant__ memory: it serves one address a request; do not copy it so "
        "often that shared memory holds fewer blocks."
    )
    rule_words = "bank conflict|shared"
    tiers = ("binary",)
    relevant = ("memory", "latency", "compute")
    worth = 1.05
    judges = (judge_by_wavefronts,)

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the line that looks up most."""
        found = self.lookups
        looped = [i for i in found if self.sass.flow.depths[i]]
        banks = self.gpu.limits.shared_banks
        if len(looped or found) < MANY or self.words <= banks or self.copies >= banks:
            return
        each, ratio = self._wavefronts, self._ratio(found)
        place = self.hottest_place(found)
        if ratio < self.worth or place.line is None:
            return
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="medium",
            message=(
                f"Table lookups in shared memory{self.written_in(found)}: data chooses the places of "
                f"{count(len(looped or found), 'load')}{' of this loop' if looped else ''}; spread evenly a request "
                f"takes about {each:.1f} wavefronts, and the load/store pipe {ratio:.1f} times as long as all else."
            ),
            guidance=(
                "Give lanes copies of their own (table[index][lane % copies]: 32 copies have no conflicts, 8 let 4 "
                "lanes meet); let one lookup bring more (wider entries, two steps in one table); or compute the value, "
                "or keep a small table in registers and exchange it by __shfl_sync or __byte_perm."
            ),
            evidence=(
                self.view.observe("loads at places that data chooses", float(len(looped or found)), "", MANY),
                self.view.observe("wavefronts per request of random places", round(each, 1), "", 1.0),
                self.view.observe(
                    "time of the load/store pipe over all else", round(ratio, 2), "", self.worth
                ),
            ),
        )

    @cached_property
    def lookups(self) -> list[int]:
        """Indices of the loads from shared memory at places that data chooses."""
        if len(self.sass.where(lambda x: x.opcode == "LDS")) < MANY:
            return []  # Following addresses takes longer than all else here.
        rare, flowing = self.sass.flow.rare, gathering(self.sass.instructions, by_tests=True)
        return [
            p.index
            for p in self.sass.patterns
            if self.sass.instructions[p.index].opcode == "LDS"
            and p.conflict is None
            and not p.part
            and p.index not in rare
            and p.index in flowing
        ]

    @property
    def _wavefronts(self) -> float:
        """Of a request whose lanes go to random entries."""
        return drawn_wavefronts(self.words, self.gpu.limits, self.copies)

    @cached_property
    def _reads(self) -> list[ArrayAccess]:
        """What the source reads of shared memory on their lines, at places that threads and loops do not tell."""
        lines = {self.sass.lines[i] for i in self.lookups} | {self.sass.written[i] for i in self.lookups}
        shared = [a for a in self.view.accesses if a.space == "shared" and a.span.line in lines]
        return [a for a in shared if a.index is None] or shared

    @cached_property
    def copies(self) -> int:
        """Copies of the table side by side, of which lanes read their own: the fewest of any lookup, 1 where it is one
        table for all."""
        varying = lane_names(self.view.body)
        sizes = {a.name: a.sizes for a in self.view.kernel.arrays}
        return min(
            (
                sizes[a.name][-1] or 1 if len(a.indices) > 1 and mentions_lanes(a.indices[-1], varying) else 1
                for a in self._reads
                if sizes.get(a.name)
            ),
            default=1,
        )

    @cached_property
    def words(self) -> int:
        """Words of the largest table that their lines index, as far as the source tells."""
        named = {a.name for a in self._reads}
        tables = [a for a in self.view.kernel.arrays if a.space == "shared" and a.name in named]
        sizes = [
            (type_bytes(a.element_type) or self.view.element_bytes(a.element_type) or 0) * math.prod(known)
            for a in tables
            if len(known := [n for n in a.sizes if n]) == len(a.sizes)
        ]
        whole = len(sizes) == len(tables) and all(sizes) and tables
        return max(1, max(sizes) // self.gpu.limits.shared_bank_bytes) if whole else _WORDS

    def _ratio(self, found: Sequence[int]) -> float:
        """Time of the load/store pipe with such wavefronts over that of the busiest other resource."""
        more = self._wavefronts - 1.0
        busy = self.sass.cycles.get("lsu", 0.0) + more * self.sass.weigh(found)
        return bound_ratio({"lsu": busy}, self.sass.cycles | self.view.traffic.cycles() | {"lsu": 0.0})
