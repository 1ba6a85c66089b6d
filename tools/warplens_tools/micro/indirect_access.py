# SPDX-License-Identifier: Apache-2.0
"""indirect-access

**What.** Each lane reads or writes global memory at a place that data choose: through an index that it has loaded, a
cell that it has worked out of a position, a slot that it was handed, a row that a table of pointers leads it to.

**Why it costs.** Nothing keeps the places of neighbouring lanes together. A request takes up to 32 sectors of 32 bytes,
of which 4 or 8 bytes are used; what the caches do not hold comes from device memory at an eighth of its bandwidth, and
a gather waits for the load of its index before.

**Wrong**

```cuda
for (int k = first[row]; k < first[row + 1]; ++k)
    force += pull(x[neighbour[k]]);          // neighbours anywhere in x
```

**Right**

```cuda
// particles sorted by cell (vertices, cells or atoms renumbered) every few steps: neighbour[k] is near row,
// and position, charge and type of one are one float4
```

**Evidence.** The index as it is written and what flows into it; where SASS is at hand, global loads and stores of the
line, as often as they run.

**Threshold.** A fifth of the kernel's global accesses, as often as each runs, without copies to shared memory and walks
that begin at such a place; two fifths of the sectors where only SASS shows them. It is information: how near the places
are only a run shows. Walks along a row from a chosen start are told as per-thread-chunks, atomics by the checks on
atomics.

**References.** CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; NVIDIA GPU Gems 3, chapter 31
(sorted particles); Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices" (1969).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.indirect import chosen_walks, indirect_accesses
from warplens_tools.cuda.facts.pointer_rows import pointer_rows
from warplens_tools.cuda.facts.searches import searches
from warplens_tools.cuda.values.forms import LOADED
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.base import MicroTool
from warplens_tools.micro.per_thread_chunks import PerThreadChunks
from warplens_tools.sass.pipes import access_bytes, is_load
from warplens_tools.sass.varying import chosen_apart, numbered

#: Share of the kernel's global accesses, as often as each runs, from which they are told.
OFTEN = 0.2
#: Share of the sectors, where only SASS shows them: a walk from a chosen start looks alike there.
MOST = 0.4
_SHOWN = 4
#: Elements of a row from which lanes that have one each are apart, and of a step through it up to which it is a walk.
_LONG, _STEP = 16, 4


class IndirectAccess(MicroTool):
    """Lanes go to places that data choose."""

    code = "WL127"
    slug = "indirect-access"
    title = "Gathers and scatters through an index that data choose"
    avoid = "Do not assume that the elements may be renumbered where others hold their indices."
    rule_words = "uncoalesced|access pattern.*global|sector"
    tiers = ("source", "binary")
    relevant = ("memory", "latency", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per kernel, on the access that runs most."""
        found = indirect_accesses(self.view.tree, self.view.kernel, self.view.global_accesses)
        steps = [s.span for s in searches(self.view.tree, self.view.kernel)]
        found = tuple(a for a in found if not any(s.contains_line(a.span.line) for s in steps))
        if self.sass:
            found = tuple(a for a in found if self.sass.global_on(a.span.line))
        if not found or (self.sass and not self._are_often(found)):
            yield from list(self._hidden() if self.sass else ()) or list(self._rows()) or self._walks()
            return
        worst = max(found, key=lambda a: (self._weight(a), len(a.loops), -a.span.line))
        text = " ".join(self.view.said(worst.span).split())
        others = {a.span.line: a for a in found if a.span.line != worst.span.line}
        yield self.finding(
            worst.span,
            severity="information",
            confidence="low",
            message=(
                f"{'Scatter' if worst.writes else 'Gather'}: data choose where each lane's {text} lies, up to 32 "
                f"sectors per request, "
                + ("each filled in part." if worst.writes else "behind the load of what chooses it.")
            ),
            guidance=(
                "Order the elements so that neighbouring lanes come to neighbouring places (sort by cell or key, "
                f"renumber the mesh, the atoms or the vertices), and keep what is needed of an element of {worst.name} "
                "together, as one vector (float2, float4)."
            ),
            evidence=(
                self.view.observe("accesses at places that data choose", float(len(found)), tier="source"),
            ),
            related=tuple(
                RelatedSpan(a.span, "a place that data choose here too")
                for a in list(others.values())[:_SHOWN]
            ),
        )

    def _rows(self) -> Iterator[Finding]:
        """Rows of the lanes' own, which a table of pointers leads to."""
        found = pointer_rows(self.view.tree, self.view.kernel, self.view.dim3)
        found = tuple(r for r in found if not self.sass or self.sass.global_on(r.span.line))
        for row in found[:1]:
            others = {r.span.line: r for r in found if r.span.line != row.span.line}
            yield self.finding(
                row.span,
                severity="information",
                confidence="low",
                message=(
                    f"A row for each lane: neighbouring lanes follow pointers of their own, {row.table}[{row.chosen}], "
                    f"and {self.view.said(row.span)} lies in another row for each: up to 32 sectors per request."
                ),
                guidance=(
                    "Let the lanes of a warp go along one row: take the row from the quotient of the thread's number "
                    "and the element from the remainder, or give a warp to each row; or keep the rows in one array, "
                    "element by element, so that neighbouring lanes lie side by side."
                ),
                evidence=(
                    self.view.observe("accesses of rows of a lane's own", float(len(found)), tier="source"),
                ),
                related=tuple(
                    RelatedSpan(r.span, "a row of each lane's own here too")
                    for r in list(others.values())[:_SHOWN]
                ),
            )

    def _walks(self) -> Iterator[Finding]:
        """Rows of a constant length that data choose, through each of which one lane walks by itself."""
        walks = chosen_walks(self.view.tree, self.view.kernel, self.view.global_accesses)
        found = [a for a in walks if _row_length(a) and (not self.sass or self.sass.global_on(a.span.line))]
        told = {f.line for f in PerThreadChunks.told(self.view)} if found else set()
        found = [a for a in found if a.span.line not in told]
        for walk in found[:1]:
            bytes_ = _row_length(walk) * (self.view.element_bytes(walk.name) or 1)
            yield self.finding(
                walk.span,
                severity="information",
                confidence="low",
                message=(
                    f"A row for each lane: each lane walks by itself through the row of {walk.name} that its data "
                    f"choose, {_row_length(walk)} elements long: lanes are rows apart, 32 sectors per request, and as "
                    "many lines have to stay in the L1 until the rows are done."
                ),
                guidance=(
                    f"Let the lanes of a warp (or of a part of one) go along one row of {walk.name} together, a row "
                    "after the other, and hand on the numbers of the rows by shuffles or through shared memory."
                ),
                evidence=(self.view.observe("bytes of a row", float(bytes_), "byte", tier="source"),),
            )

    def _hidden(self) -> Iterator[Finding]:
        """What only SASS shows: in device functions, and through pointers and macros that the text does not tell."""
        told = {a.span.line for a in self.view.global_accesses if self._is_told(a)}
        apart = [
            i
            for i in chosen_apart(self.sass.instructions, self.sass.lane_dependent)
            if self.sass.written[i] not in told
        ]
        every = frozenset(self.sass.where(lambda x: x.opcode in ("LDG", "STG", "LD", "ST")))
        beside = numbered(self.sass.instructions) if apart else frozenset()
        apart = [i for i in apart if i in every and i not in beside and i not in self.sass.flow.rare]
        share = self._share_of_sectors(apart, every)
        if not apart or share < MOST:
            return
        place = self.hottest_place(apart)
        here = [i for i in apart if self.sass.written[i] == place.line] or apart
        writes = not any(is_load(self.sass.instructions[i]) for i in here)
        yield self.finding(
            place.line,
            related=place.related,
            severity="information",
            confidence="low",
            message=(
                f"{'Scatter' if writes else 'Gather'}{self.written_in(here)}: the addresses of this line rest on what "
                "each lane loaded: a request takes the sectors of every row that one of its lanes chose, "
                f"{self.gpu.limits.warp_size} where none lie together, "
                + ("each filled in part." if writes else "behind the load that they wait for.")
            ),
            guidance=(
                "Order the elements so that neighbouring lanes come to neighbouring places (sort by cell, key or "
                "bucket, renumber), stage what goes to one place in shared memory and write it in rows, and keep what "
                "is needed of one element together, as one vector (float2, float4)."
            ),
            evidence=(
                self.view.observe("accesses at places that each lane loaded", float(len(apart))),
                self.view.observe("their share of the sectors", round(share, 2), "", MOST),
            ),
        )

    def _share_of_sectors(self, apart: Sequence[int], every: Iterable[int]) -> float:
        """Of the sectors that are asked for, those of these accesses: of each lane's its own, where others are one for
        all lanes or stand side by side."""
        code, weights, chosen = self.sass.instructions, self.sass.weights, frozenset(apart)
        lanes = self.gpu.limits.warp_size
        total = own = 0.0
        for i in every:
            beside = min(lanes, access_bytes(code[i])) if i in self.sass.lane_dependent else 1
            taken = weights[i] * (lanes if i in chosen else beside)
            total += taken
            own += taken if i in chosen else 0.0
        return own / total if total else 0.0

    def _is_told(self, access: ArrayAccess) -> bool:
        """Whether the text tells where its lanes are, or that they walk on from where they began."""
        place = access.traced
        walks = any(x.variable and x.variable in " ".join(access.indices) for x in access.loops)
        return access.index is not None or walks or (place is not None and place.told_by_lanes is not None)

    def _weight(self, access: ArrayAccess) -> float:
        """How often it runs; without SASS nothing is known."""
        return self.sass.weigh(self.sass.global_on(access.span.line)) if self.sass else 0.0

    def _are_often(self, found: Sequence[ArrayAccess]) -> bool:
        """Whether they are a part that counts. Walks that begin at a chosen place are as short as what it holds, and
        what is copied to shared memory is read but once: neither is what they are held against."""
        walks = chosen_walks(self.view.tree, self.view.kernel, self.view.global_accesses)
        kept = {a.span.line for a in self.view.accesses if a.space == "shared" and a.writes}
        aside = {i for a in walks for i in self.sass.global_on(a.span.line)}
        aside |= {i for line in kept for i in self.sass.global_on(line)}
        own = {i for a in found for i in self.sass.global_on(a.span.line)}
        every = set(self.sass.where(lambda x: x.opcode in ("LDG", "STG", "LD", "ST"))) - (aside - own)
        return self.sass.weigh(own) >= OFTEN * self.sass.weigh(every)


def _row_length(access: ArrayAccess) -> int:
    """Elements between the rows of which a loop walks through one; 0 where that is not told, or they are short."""
    place = access.traced
    if place is None or not access.loops:
        return 0
    loop = access.loops[-1]
    step = place.coefficient(loop.counter or f"{loop.variable}@{loop.offset}")
    rows = [abs(f) for own, f in place.terms if len(own) == 1 and own[0].operation == LOADED]
    return rows[0] if len(rows) == 1 and rows[0] >= _LONG and step and abs(step) <= _STEP else 0
