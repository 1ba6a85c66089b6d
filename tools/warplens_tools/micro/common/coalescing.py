# SPDX-License-Identifier: Apache-2.0
"""The four tools on uncoalesced access: one cause each, looked for in the source, then in SASS, then in counters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Literal

from warplens_tools.collect import metrics as names
from warplens_tools.finding import Finding, Gain, RelatedSpan
from warplens_tools.lazily import cached_property
from warplens_tools.machine.coalescing import WarpAccess, accesses_by_loaded
from warplens_tools.machine.counted import Wasteful
from warplens_tools.machine.stepped import accesses_by_steps
from warplens_tools.micro.base import Place
from warplens_tools.micro.common.judges import judge_by_sectors
from warplens_tools.micro.common.scattered import Scattered, repaired_too, scattered, scattered_gain
from warplens_tools.micro.common.sectors import NEAR, SCATTERED, Cause, SectorTool, cause_of
from warplens_tools.sass.listing import TRIPS_PER_LEVEL
from warplens_tools.sass.pipes import is_load

#: Hit rate of the L1, per cent, from which most of what is loaded was fetched before.
MOSTLY_HITS = 50.0
#: Share of the global accesses that they have to be for their sectors to be told where they do not show in the gain.
_OFTEN = 0.05
_FOR = re.compile(r"\bfor\s*\([^;=]*=([^;]*);")


class CoalescingTool(SectorTool):
    """A tool whose cause is one way of being uncoalesced. A subclass says the cause, and the words for it."""

    judges = (judge_by_sectors,)
    cause: ClassVar[Cause]
    #: What to do of an access that only SASS shows, and of a line that only counters show.
    guidance_hidden: ClassVar[str]
    guidance_counted: ClassVar[str]
    index_query: ClassVar[str] = ""

    @cached_property
    def _hidden(self) -> list[Scattered]:
        return scattered(self.view)

    @property
    def worst_hidden(self) -> Scattered | None:
        """The most wasteful line of this cause that only SASS shows."""
        return next((s for s in self._hidden if s.cause == self.cause), None)

    def words(self, worst: WarpAccess) -> tuple[str, str]:
        """Message and guidance for an access of the source."""
        raise NotImplementedError

    def words_counted(self, found: Wasteful) -> str:
        """The message for a line that only counters show."""
        raise NotImplementedError

    def check(self) -> Iterable[Finding]:
        """One finding per kernel, on the access that wastes most."""
        # What single threads fetch, such as a tile's border, is no layout of a warp's lanes.
        every = [w for w in self.view.warp_accesses if not w.access.few and cause_of(w) == self.cause]
        found = [w for w in every if self.is_compiled(w)]
        if not found:
            yield from list(self.check_hidden()) or list(self._by_loaded()) or self._by_steps()
            return
        found.sort(key=lambda w: (-waste(w), w.access.conditional, w.access.span))
        gain, worst = self.sector_gain(found), found[0]
        if gain is not None and gain.estimate < self.worth and not self._is_near(worst):
            if worst.overfetch < SCATTERED or not self._are_often(found):
                return
            gain = None  # What it costs beside all else does not show; that it is so does.
        if self.is_of_bytes(worst):
            gain = None  # Short rows share sectors, which the L1 keeps.
        rivals = self._rivals(found)
        if any((waste(w), cause_of(w) == "write") > (waste(worst), self.cause == "write") for w in rivals):
            return  # One layout of the lanes, one finding: on the access that wastes most.
        message, guidance = self.words(worst)
        found = [*found, *rivals]
        others = [w for w in found[1:] if w.access.span.line != worst.access.span.line][:4]
        yield self.finding(
            worst.access.span,
            severity="information" if gain is None else "warning",
            confidence="medium" if gain is None or self.view.block is None else "high",
            message=message,
            guidance=guidance,
            evidence=self.sectors_seen(worst),
            gain=gain,
            missing=("the length of a row",) if self.is_of_bytes(worst) else (),
            related=tuple(
                RelatedSpan(w.access.span, f"{w.sectors} sectors per request here too") for w in others
            ),
            index_query=self.index_query,
        )

    def _rivals(self, found: Sequence[WarpAccess]) -> list[WarpAccess]:
        """Accesses the other way, read or written, that the same new layout of the lanes repairs."""
        other = {"read": "write", "write": "read"}.get(self.cause)
        return [w for w in self.alike(found) if cause_of(w) == other and self.is_compiled(w)]

    def _by_loaded(self) -> Iterator[Finding]:
        """Lanes that are apart by what all of them load from one place: information, as it may be little."""
        every = accesses_by_loaded(self.view) if self.cause in ("read", "write") else ()
        found = [w for w in every if cause_of(w) == self.cause and w.in_rows and self.is_compiled(w)]
        if not found or (self.sass and not self._are_often(found)):
            return
        worst = max(found, key=lambda w: (waste(w), -w.access.span.line))
        message, guidance = self.words(worst)
        yield self.finding(
            worst.access.span,
            severity="information",
            confidence="low",
            message=message,
            guidance=guidance,
            evidence=self.sectors_seen(worst),
            index_query=self.index_query,
        )

    def _by_steps(self) -> Iterator[Finding]:
        """Lanes a row apart between which the launches of a host loop go on: information, as another layout is for all
        that use the array to bear."""
        every = accesses_by_steps(self.view) if self.cause in ("read", "write") else ()
        found = [w for w in every if cause_of(w) == self.cause and w.in_rows and self.is_compiled(w)]
        if not found or (self.sass and not self._are_often(found)):
            return
        worst = max(found, key=lambda w: (waste(w), -w.access.span.line))
        message, _ = self.words(worst)
        yield self.finding(
            worst.access.span,
            severity="information",
            confidence="low",
            message=message,
            guidance=(
                f"Each launch of the host's loop takes one element of each row of {worst.access.name}: keep it so that "
                "what one launch takes lies side by side (each anti-diagonal, or each column, as a row of its own), or "
                "let one launch do a tile of several steps in shared memory."
            ),
            evidence=self.sectors_seen(worst),
            index_query=self.index_query,
        )

    def _are_often(self, found: Sequence[WarpAccess]) -> bool:
        """Whether they are a part of the kernel's global accesses that counts, as often as each runs."""
        weight = self.sass.weights
        own = {
            i for w in [*found, *self._rivals(found)] for n in w.lines_used for i in self.sass.global_on(n)
        }
        every = self.sass.where(lambda x: x.opcode in ("LDG", "STG"))
        return sum(weight[i] for i in own) >= _OFTEN * sum(weight[i] for i in every)

    def _is_near(self, worst: WarpAccess) -> bool:
        """Whether the caches that a scattered access keeps busy come near the roof: units do not overlap perfectly."""
        if not self.sass or worst.overfetch < SCATTERED:
            return False
        floor = self.view.traffic.cycles()
        return max(floor["l2"], floor["l1 lines"]) >= NEAR * max(
            [*self.sass.cycles.values(), *floor.values()]
        )

    def check_hidden(self) -> Iterator[Finding]:
        """What only SASS shows, on the worst line; none where its removal would not show."""
        worst = self.worst_hidden
        if worst is None:
            return
        gain, near = scattered_gain(self.view, repaired_too(self.cause, self._hidden))
        if gain.estimate < self.worth and (not near or worst.overfetch < SCATTERED):
            return
        loads = [is_load(self.sass.instructions[i]) for i in worst.indices]
        doing = "loads" if all(loads) else "stores" if not any(loads) else "accesses"
        apart = (
            f"{worst.stride} bytes apart"
            if worst.stride is not None
            else "in chunks of their own"
            if self.cause == "chunk"
            else "a run-time distance apart"
        )
        ideal = float(worst.ideal_sectors)
        # Where no launch tells the block, lanes may be of several of its rows, and an unknown distance an element.
        rows = worst.stride is None or "threadIdx.y" in self.view.body
        told = self.view.block is not None or not rows
        place = self._place_of(worst)
        yield self.finding(
            place.line,
            severity="warning" if told and not self._is_told_of_more() else "information",
            confidence="medium" if told else "low",
            missing=() if told else ("how far apart neighbouring lanes are",),
            message=(
                f"Uncoalesced {doing} on this line: {'' if told else 'up to '}{worst.sectors} sectors per request, "
                f"{worst.ideal_sectors} would suffice: neighbouring lanes are {apart}."
            ),
            guidance=self.guidance_hidden,
            evidence=(
                self.view.observe("sectors per request", float(worst.sectors), "", ideal),
                self.view.observe("global accesses on the line", float(len(worst.indices))),
            ),
            gain=gain if told else None,
            related=place.related,
        )

    def _place_of(self, worst: Scattered) -> Place:
        """The kernel's line; of a kernel that a macro writes on one line, that of the function which it calls."""
        span = self.view.kernel.span
        if span.line == span.end_line:
            return self.hottest_place(worst.indices)
        return Place(self.sass.hottest_line(worst.indices))

    def _is_told_of_more(self) -> bool:
        """Whether the same new layout of the lanes repairs accesses the other way, which run more often."""
        every = repaired_too(self.cause, self._hidden)
        own = self.sass.weigh([i for s in every if s.cause == self.cause for i in s.indices])
        other = self.sass.weigh([i for s in every if s.cause != self.cause for i in s.indices])
        return other > own or (other == own > 0.0 and self.cause == "write")

    def check_counters(self) -> Iterator[Finding]:
        """The line that was counted to move far more sectors than its lanes want, whatever its address is made of."""
        found = self.counted_waste()
        if found is not None:
            yield self.finding(
                found.line,
                confidence="high",
                message=self.words_counted(found),
                guidance=self.guidance_counted,
                evidence=found.evidence,
                gain=Gain.of(found.ratio, found.ratio),
            )

    def counted_waste(self) -> Wasteful | None:
        """The line of loads that wastes most, where its pattern is of this tool's cause.

        Fewer sectors per request than lanes are lanes less than a sector apart: a field of a struct. One sector a lane,
        that the L1 still holds when the next loads come, in a loop that starts at a place of each thread's own: a
        chunk for each thread. All else is a read across rows.
        """
        counted = self.view.counted
        found = counted.wasteful_line(names.GLOBAL_SECTORS, "global", stores=False) if counted else None
        return found if found is not None and self._cause_counted(found) == self.cause else None

    def _cause_counted(self, found: Wasteful) -> Literal["read", "field", "chunk"]:
        if found.each < 0.95 * self.gpu.limits.warp_size:
            return "field"
        counters = self.view.evidence.counters
        hits = names.value(counters, names.L1_HIT_RATE) if counters is not None else None
        again = hits is not None and hits >= MOSTLY_HITS
        return "chunk" if again and self._starts_apart(found.line) else "read"

    def _starts_apart(self, line: int) -> bool:
        """Whether the loop around a line starts at anything but a number."""
        above = range(line, self.view.kernel.body.line, -1)
        heads = (_FOR.search(self.view.text.line_text(n)) for n in above)
        head = next((found for found in heads if found is not None), None)
        return head is not None and not head[1].strip().isdigit()


def waste(warp: WarpAccess) -> float:
    """Sectors moved for nothing, with deeper loops before shallower ones."""
    return (warp.sectors - warp.ideal_sectors) * TRIPS_PER_LEVEL ** len(warp.access.loops)
