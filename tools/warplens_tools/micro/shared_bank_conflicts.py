# SPDX-License-Identifier: Apache-2.0
"""shared-bank-conflicts

**What.** The threads of a warp address different words of the same shared-memory bank: typically a
column of a tile whose pitch is a multiple of 32 words.

**Why it costs.** Shared memory has 32 banks of 4 bytes. Each serves one word per wavefront; a request
for n words of one bank is an n-way bank conflict and takes n wavefronts, up to 32.

**Wrong**

```cuda
__shared__ float tile[32][32];
...
out[i] = tile[threadIdx.x][k];      // lanes are 32 words apart: one bank
```

**Right**

```cuda
__shared__ float tile[32][33];      // lanes are 33 words apart: 32 banks
```

**Evidence.** The index as a function of `threadIdx`, the pitch of the declaration and the block's
extents, evaluated for every lane of a warp; where SASS is at hand, the `LDS`/`STS` it became.

**Threshold.** Twice the wavefronts of a conflict-free access of that width (four for 16 bytes a lane, two for 8); a
warning from four times on. Where the block is not known from the launches, what a square block has too counts, with
lower confidence. What the compiler merged into wider accesses is judged as merged. Padding is offered where it parts
the lanes that meet: those of one row it does not. Counters that show no more wavefronts on the line than needed
withdraw it.

**References.** CUDA C++ Programming Guide, "Shared Memory" (of compute capability 5.x and later); CUDA C++
Best Practices Guide, "Shared Memory and Memory Banks".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from warplens_tools.collect import metrics as names
from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.lane_names import lane_names, mentions_lanes
from warplens_tools.cuda.model import ArrayDeclaration
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Gain, RelatedSpan
from warplens_tools.machine.conflicts import Conflict, HiddenConflict
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.common.judges import judge_by_wavefronts
from warplens_tools.rewrite.pad_shared_tile import REWRITE

#: Wavefronts over the conflict-free ones from which an access is reported, and from which it is a warning.
CONFLICTING, WARNED = 2.0, 4.0


_UNPADDED = (
    "The lanes of a warp are of several rows, which meet because each begins some words further on: swizzle the column "
    "index with the row (column ^ row) instead of padding, or let a row of the block be a warp wide."
)
_ALIGNED_PAD = (
    "Swizzle the column index with the row in steps of 16 bytes (column ^ row), or pad the rows by 16 bytes: the "
    "16-byte asynchronous copies that fill the tile need every row aligned to 16 bytes."
)


_MATRIX_PAD = (
    "Swizzle the column index with the row in steps of 16 bytes (column ^ row), or pad the rows by 16 bytes: ldmatrix "
    "takes rows of 16 bytes, aligned to 16."
)
_WORD = 4
_SHARED = ("LDS", "STS", "LDSM", "STSM")
_ACROSS = re.compile(r"threadIdx\.x\s*\*|\*\s*threadIdx\.x")
_HEAD = re.compile(r"\s*(?:for|while|if|do)\b[^;{]*")


class SharedBankConflicts(MicroTool):
    """Shared-memory accesses of a warp fall into one bank."""

    code = "WL108"
    slug = "shared-bank-conflicts"
    title = "Shared-memory bank conflicts"
    avoid = (
        "Do not pad by a multiple of 32 words; do not break the 16-byte alignment that vector or asynchronous"
        " copies need."
    )
    rule_words = "bank conflict"
    tiers = ("source", "binary")
    relevant = ("memory", "latency")
    judges = (judge_by_wavefronts,)

    def check(self) -> Iterator[Finding]:
        """One finding per array, on the access with the most wavefronts in the deepest loop."""
        arrays = {a.name: a for a in self.view.kernel.arrays if a.space == "shared"}
        found: dict[str, list[Conflict]] = {}
        for conflict in self.view.conflicts.every:
            if conflict.access.name in arrays:
                found.setdefault(conflict.access.name, []).append(conflict)
        told = []
        for name, group in found.items():
            worst = max(group, key=lambda c: (c.degree, len(c.access.loops)))
            if worst.degree >= CONFLICTING and self._still_there(worst):
                told.append(self._finding(arrays[name], worst, group))
        yield from told or self._hidden({c.access.span.line for group in found.values() for c in group})

    def _hidden(self, told: Collection[int]) -> Iterator[Finding]:
        """A conflict that only SASS shows: its array is indexed by a pointer, a function or a class of the program's
        own. Of the lines `told` the source tells."""
        shared = self.sass.where(lambda x: x.opcode in _SHARED)
        if all(self.sass.lines[i] in told for i in shared):
            return
        found = [
            c
            for c in self.view.conflicts.hidden
            if c.degree >= CONFLICTING and self.sass.lines[c.pattern.index] not in told
        ]
        if not found:
            return
        weight = self.sass.weights
        worst = max(found, key=lambda c: weight[c.pattern.index] * c.degree)
        after = self._others
        loads = self._loads(worst.pattern.index)
        line = self._line(worst.pattern.index, loads=loads)
        extra = sum(weight[c.pattern.index] * c.passes * (1.0 - 1.0 / c.degree) for c in found)
        ratio = bound_ratio(after | {"lsu": after.get("lsu", 0.0) + extra}, after)
        ideal = worst.passes / worst.degree
        yield self.finding(
            line,
            severity="warning" if worst.degree >= WARNED else "information",
            confidence="high" if self._lanes_known else "medium",
            message=(
                f"{_conflict(worst.passes, worst.degree)}: this line {'reads' if loads else 'writes'} shared memory "
                f"with {worst.passes} wavefronts per request instead of {round(ideal)}."
            ),
            guidance=_UNPADDED if self._is_of_padding(line, loads=loads) else self._cure(worst),
            evidence=(
                self.view.observe(
                    "shared-memory wavefronts per request", float(worst.passes), "",
                    round(ideal, 1), "addresses of the lanes, from SASS",
                ),
            ),
            gain=Gain.of(ratio, ratio),
            index_query="shared memory swizzle layout bank conflict free transpose",
        )  # fmt: skip

    @property
    def _lanes_known(self) -> bool:
        return self.view.launches.lanes(self.view.gpu.limits.warp_size) is not None

    def _loads(self, index: int) -> bool:
        return self.sass.instructions[index].opcode in ("LDS", "LDSM")

    def _line(self, index: int, *, loads: bool) -> int | None:
        """The line of an instruction; where the source has no such access on it, the nearest that has: the compiler
        moves stores to where paths meet."""
        line = self.sass.lines[index]
        free = {c.access.span for c in self.view.conflicts.every if c.degree <= 1.0}
        ways = [a for a in self.view.accesses if a.space == "shared" and (a.reads if loads else a.writes)]
        ways = [a for a in ways if a.span not in free] or ways
        places = {a.span.line for a in ways}
        if line is None or not ways or line in places or not self._is_misplaced(line, loads=loads):
            return line
        # Of those near, the one whose lanes are a row apart.
        across = {a.span.line for a in ways if any(map(_ACROSS.search, a.indices))}
        return min(across or places, key=lambda n: abs(n - line))

    def _is_misplaced(self, line: int, *, loads: bool) -> bool:
        """Whether all that the source has of shared memory on a line goes the other way, or it heads a statement."""
        here = [a for a in self.view.accesses if a.space == "shared" and a.span.line == line]
        head = _HEAD.match(self.view.text.line_text(line)) is not None
        return head or (bool(here) and not any(a.reads if loads else a.writes for a in here))

    def _is_of_padding(self, line: int | None, *, loads: bool) -> bool:
        """Whether what meets on a line are rows that padding moved against each other."""
        pitch = {a.name: a.sizes[-1] or 0 for a in self.view.kernel.arrays if len(a.sizes) > 1}
        found = [
            c
            for c in self.view.conflicts.every
            if c.access.span.line == line
            and c.degree > 1.0
            and (c.access.reads if loads else c.access.writes)
        ]
        return bool(found) and not any(
            self.view.conflicts.is_padded_away(c, pitch.get(c.access.name, 0)) for c in found
        )

    def _cure(self, worst: HiddenConflict) -> str:
        width = worst.pattern.width
        if worst.in_row:
            return (
                f"Neighbouring lanes are {worst.in_row} bytes apart in one row, which padding the rows does not part: "
                f"let consecutive lanes take consecutive {width}-byte pieces of it."
            )
        if self.sass.instructions[worst.pattern.index].opcode in ("LDSM", "STSM"):
            return _MATRIX_PAD
        if self._copies_wide():
            return _ALIGNED_PAD
        return (
            f"Pad the rows of the tile by {'one word' if width <= _WORD else '16 bytes'} so that neighbouring lanes "
            "fall into different banks, or swizzle the column index with the row (column ^ row)."
        )

    def _copies_wide(self) -> bool:
        """Whether 16-byte asynchronous copies fill shared memory: a pad of one word would break their alignment."""
        return bool(self.sass.where(lambda x: x.opcode == "LDGSTS" and "128" in x.modifiers))

    def _still_there(self, conflict: Conflict) -> bool:
        """Whether SASS, where it is at hand, has shared accesses on the line: the compiler may have removed them."""
        if not self.sass:
            return True
        return bool(self.view.conflicts.instructions_on(conflict.access.span.line))

    def _finding(self, array: ArrayDeclaration, worst: Conflict, group: list[Conflict]) -> Finding:
        access, wide = worst.access, self._copies_wide()
        pitch = f"[{array.extents[-1]}]" if len(array.extents) > 1 else ""
        padded = bool(pitch) and not self._in_one_row(access)
        padded = padded and self.view.conflicts.is_padded_away(worst, array.sizes[-1] or 0)
        return self.finding(
            access.span,
            severity="warning" if worst.degree >= WARNED else "information",
            confidence="high" if self._lanes_known else "medium",
            message=(
                f"{_conflict(worst.passes, worst.degree)}: {self.view.said(access.span)} takes "
                f"{worst.passes} wavefronts per request instead of {round(worst.passes / worst.degree)}."
            ),
            guidance=(
                _ALIGNED_PAD
                if padded and wide
                else f"Pad the inner extent of {array.name}{pitch} so that neighbouring lanes fall into different "
                "banks, or swizzle the column index with the row (column ^ row)."
                if padded
                else f"Let neighbouring lanes access neighbouring words of {array.name}"
                f"{': they meet inside one row, which padding does not part.' if pitch else '.'}"
            ),
            evidence=self._observations(worst),
            gain=self._gain(group),
            fixes=self.fixes_of(REWRITE, array.name) if padded and not wide else (),
            related=(RelatedSpan(array.span, f"{array.name} is declared here"),),
            index_query="shared memory swizzle layout bank conflict free transpose" if pitch else "",
        )

    def _in_one_row(self, access: ArrayAccess) -> bool:
        """Whether nothing of a lane's own says which row it comes to, however long the rows are."""
        lanes = lane_names(self.view.body)
        return len(access.indices) > 1 and not any(mentions_lanes(s, lanes) for s in access.indices[:-1])

    @property
    def _others(self) -> dict[str, float]:
        """Cycles per warp of all that the wavefronts run beside, what is serialised too."""
        return self.sass.cycles | self.view.traffic.pessimistic_cycles | self.view.contention.cycles

    def _observations(self, worst: Conflict) -> tuple[Observation, ...]:
        limits, ideal = self.gpu.limits, round(worst.passes / worst.degree, 1)
        banks = f"{limits.shared_banks} banks of {limits.shared_bank_bytes} bytes"
        metric = "shared-memory wavefronts per request"
        seen = self.view.observe(metric, float(worst.passes), "", ideal, banks, tier=worst.tier)
        if not self.sass:
            return (seen,)
        count = len(self.view.conflicts.instructions_on(worst.access.span.line))
        return seen, self.view.observe("LDS/STS instructions on the line", float(count))

    def _gain(self, group: list[Conflict]) -> Gain | None:
        """Throughput bound with the extra wavefronts of every conflicting access of the array, and without.

        That has the wavefronts run beside all else. Where a barrier keeps a block's reads of the tile apart from its
        loads into it, only other blocks can fill the memory's time meanwhile: at most nothing does, and the wavefronts
        come on top. A padded transpose gained 2.18, between 1.7 and 2.6 (docs/benchmarks/optimize.json).
        """
        if not self.sass:
            return None
        after = self._others
        extra, top = self.view.conflicts.extra_passes(group), max(after.values(), default=0.0)
        ratio = bound_ratio(after | {"lsu": after.get("lsu", 0.0) + extra}, after)
        apart = top > 0.0 and bool(self.sass.where(lambda x: x.opcode == "BAR"))
        return Gain.of(ratio, 1.0 + extra / top if apart else ratio)

    def check_counters(self) -> Iterator[Finding]:
        """Shared accesses that were counted to take more wavefronts than they need, whatever their address "
        "is made of."""
        counted = self.view.counted
        found = counted.wasteful_line(names.SHARED_WAVEFRONTS, "shared") if counted is not None else None
        if found is None:
            return
        yield self.finding(
            found.line,
            confidence="high",
            message=(
                f"Bank conflicts: the shared accesses of this line take {found.ratio:.1f} times the "
                "wavefronts they need."
            ),
            guidance="Pad the rows of the tile by one element, or swizzle its columns by the row.",
            evidence=found.evidence,
            gain=Gain.of(found.ratio, found.ratio),
            index_query="Swizzle shared memory layout",
        )


def _conflict(passes: int, degree: float) -> str:
    """The field's name of it: n wavefronts where one would do are an n-way conflict."""
    return f"{round(degree)}-way bank conflict" if degree >= 2.0 else f"Bank conflict ({passes} wavefronts)"
