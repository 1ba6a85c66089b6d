# SPDX-License-Identifier: Apache-2.0
"""Uncoalesced accesses that only SASS tells: those whose index the source hides behind classes, calls and casts.

Where the source gives an access's lanes (`machine.coalescing`), that is used and nothing is said here.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.finding import Gain
from warplens_tools.kernel import KernelView
from warplens_tools.machine.footprint import footprint
from warplens_tools.machine.gain import bound_ratio
from warplens_tools.micro.common.sectors import NEAR, OVERFETCHED, PARTLY, RECORD_BYTES, Cause
from warplens_tools.sass.addresses import AddressPattern, constant_of, without_constant
from warplens_tools.sass.banks import wavefronts
from warplens_tools.sass.lanes import FEW_QUOTIENTS
from warplens_tools.sass.listing import Sass
from warplens_tools.sass.pipes import access_bytes, is_load
from warplens_tools.sass.warps import WARP

#: Neighbouring elements that one pass of a loop must read for the thread to walk a stretch of its own.
_WALKED = 3
_DEALT = frozenset({"read", "write"})
#: Passes of the L1 that a walk through stretches of unknown length takes: between the 9 of any length that is no
#: multiple of 16 words and the 32 of multiples of 32 words (docs/benchmarks/costs.json), the geometric mean.
_UNKNOWN_PASSES = 17.0
#: A distance between lanes that only the launch knows: "4*lane*c[0x0][0x22c]".
_SYMBOLIC = re.compile(r"lane\*(?!\d)|[A-Za-z)\]][\w.()\[\]]*\*lane\b")
_PLACE = re.compile(r"\[(R\d+)(?:\.\w+)*(?:\+(-?0x[0-9a-f]+))?\]")


class Scattered(msgspec.Struct, frozen=True):
    """Instructions of one line that touch more sectors than their lanes want."""

    cause: Cause
    line: int
    indices: tuple[int, ...]
    sectors: int
    ideal_sectors: int
    #: Bytes between lanes; None where it is a run-time value, or each lane's own.
    stride: int | None
    #: Whether the next pass of a loop goes on where a lane stopped.
    walked: bool = False

    @property
    def overfetch(self) -> float:
        """Sectors moved over sectors needed."""
        return self.sectors / self.ideal_sectors


def scattered(view: KernelView) -> list[Scattered]:
    """Every such line that the source does not explain, most wasteful first."""
    sass = view.sass
    told = {
        (line, load)
        for w in view.warp_accesses
        for line in w.lines_used
        for load, has in ((True, w.access.reads), (False, w.access.writes))
        if has
    }
    # What one thread of a group does costs little, wherever its lanes would be.
    told |= {(a.span.line, a.reads) for a in view.global_accesses if a.one}
    groups: dict[tuple[int, bool], list[int]] = {}
    for i in sass.where(lambda x: x.opcode in ("LDG", "STG")):
        place, load = sass.lines[i], is_load(sass.instructions[i])
        if place is not None and (place, load) not in told:
            groups.setdefault((place, load), []).append(i)
    records = _Records(sass)
    found = [
        s
        for (at, load), indices in groups.items()
        for s in _of_line(sass, at, indices, records, near=_are_neighbours(view, at, load=load))
    ]
    return sorted(found, key=lambda s: (-(s.sectors - s.ideal_sectors) * sass.weights[s.indices[0]], s.line))


def _are_neighbours(view: KernelView, line: int, *, load: bool) -> bool:
    """Whether the source has the lanes of every access of a line at one element or at neighbouring ones, of a size that
    it does not tell: where a loop's start differs by lane, they walk on side by side."""
    here = [a for a in view.global_accesses if a.span.line == line and (a.reads if load else a.writes)]
    lanes = [view.lane_values(a.index) if a.index is not None else None for a in here]
    return bool(lanes) and all(v is not None and _steps(v) <= {0, 1} for v in lanes)


def _steps(values: Sequence[int]) -> set[int]:
    return {abs(b - a) for a, b in itertools.pairwise(values)}


def _of_line(
    sass: Sass, line: int, every: Sequence[int], records: _Records, *, near: bool
) -> Iterator[Scattered]:
    """What is scattered of one line's loads, or of its stores; `near`: the source has neighbours side by side."""
    patterns = {p.index: p for p in sass.patterns}
    indices = [i for i in every if i in patterns]
    walks = _walks(sass, indices)
    groups: dict[tuple[Cause, int, int | None], list[int]] = {}
    for i in indices:
        pattern, ideal = patterns[i], access_bytes(sass.instructions[i])
        plain: Cause = "read" if is_load(sass.instructions[i]) else "write"
        if pattern.sectors is not None and pattern.stride is not None:
            sectors, stride = pattern.sectors[0], abs(pattern.stride)
            if sectors < OVERFETCHED * ideal:
                continue
            cause: Cause = "chunk" if walks else "field" if stride <= RECORD_BYTES else plain
            if cause != "field" or records.are_split(pattern):
                groups.setdefault((cause, sectors, stride), []).append(i)
        elif _SYMBOLIC.search(pattern.form):
            # Lanes are as far apart as a run-time value says: known to be far only where something else goes along
            # between them. A stride alone is 1 as likely as not, and a diagonal's neighbours are nobody's.
            if records.are_rows(pattern):
                groups.setdefault((plain, 32, None), []).append(i)
        elif (
            walks
            and not near
            and not pattern.form
            and i in sass.lane_dependent
            and not pattern.why.endswith(FEW_QUOTIENTS)
        ):
            groups.setdefault(("chunk", 32, None), []).append(i)
    for (kind, sectors, apart), found in groups.items():
        ideal = access_bytes(sass.instructions[found[0]])
        yield Scattered(kind, line, tuple(found), sectors, ideal, apart, walks)


class _Records:
    """What a kernel's accesses take together of the records that its lanes are apart by."""

    def __init__(self, sass: Sass) -> None:
        self.sass = sass
        self._taken: dict[tuple[bool, str], set[tuple[int, int]]] = {}
        self._places: dict[tuple[bool, str], set[int]] = {}
        for p in sass.patterns:
            if p.space == "global" and p.form:
                at = constant_of(p.form)
                self._places.setdefault(self._key(p), set()).add(at)
                if p.stride:
                    self._taken.setdefault(self._key(p), set()).add((at % abs(p.stride), p.width))
        #: Accesses whose address is not known, by what they are: they may be any record's other fields.
        self._untold = {self._like(p) for p in sass.patterns if p.space == "global" and not p.form}

    def are_split(self, pattern: AddressPattern) -> bool:
        """Whether the kernel is known to leave most of the records' sectors, whose layout is the user's."""
        if self._like(pattern) in self._untold or self.sass.table.is_toolkit(
            self.sass.instructions[pattern.index]
        ):
            return False
        return self._wasted(pattern) >= OVERFETCHED

    def are_rows(self, pattern: AddressPattern) -> bool:
        """Whether something goes on between lanes that are a run-time value apart, by no more than a cache line or than
        an unrolled loop takes at once."""
        places = self._places.get(self._key(pattern), ())
        reach = max(places, default=0) - min(places, default=0) + pattern.width
        line = self.sass.gpu.limits.cache_line_bytes
        return 0 < pattern.goes_on <= max(reach, line) and not pattern.part

    def _like(self, pattern: AddressPattern) -> tuple[bool, int, int]:
        load = is_load(self.sass.instructions[pattern.index])
        return load, pattern.width, self.sass.flow.depths[pattern.index]

    def _key(self, pattern: AddressPattern) -> tuple[bool, str]:
        return is_load(self.sass.instructions[pattern.index]), without_constant(pattern.form)

    def _wasted(self, pattern: AddressPattern) -> float:
        """Bytes of the sectors that all accesses to the same records touch, over the bytes that they want: what one of
        them leaves the next finds in the L1, or completes in the L2."""
        starts = [lane * abs(pattern.stride or 0) for lane in range(WARP)]
        touched = footprint(starts, sorted(self._taken[self._key(pattern)]))
        return len(touched.sectors) * SECTOR_BYTES / touched.wanted


def _walks(sass: Sass, indices: Sequence[int]) -> bool:
    """Whether one pass of a loop accesses neighbouring elements from one register on: an unrolled walk."""
    places: dict[str, set[int]] = {}
    for i in indices:
        if sass.flow.depths[i]:
            found = _PLACE.search(next((o for o in sass.instructions[i].operands if "[R" in o), ""))
            if found is not None:
                places.setdefault(found[1], set()).add(int(found[2] or "0", 16))
    width = access_bytes(sass.instructions[indices[0]]) if indices else 4
    return any(sum(at + width in offsets for at in offsets) >= _WALKED - 1 for offsets in places.values())


def repaired_too(cause: Cause, every: Sequence[Scattered]) -> list[Scattered]:
    """Those of a cause, and with them what the same repair reaches: what deals the elements anew to the threads repairs
    the reads and the writes that lie as far apart."""
    found = [s for s in every if s.cause == cause]
    strides = {s.stride for s in found}
    alike = [s for s in every if s.cause != cause and {s.cause, cause} <= _DEALT and s.stride in strides]
    return [*found, *alike]


def scattered_gain(view: KernelView, found: Sequence[Scattered]) -> tuple[Gain, bool]:
    """Bounds with these sectors moved and looked up, over the bounds with the fewest; and whether the caches come near
    the roof as it is."""
    gpu, costs, sector = view.gpu, view.gpu.costs, SECTOR_BYTES
    before = view.sass.cycles | view.waiting.latency_bound()
    after = dict(before)
    for s in found:
        times = view.sass.weigh(s.indices)
        ideal = s.ideal_sectors * sector
        partly = (costs.partial_write + costs.partial_request) * sector
        request = partly if s.cause == "write" else costs.request_bytes
        lost = view.traffic.l1_misses if s.walked and s.cause != "write" else 1.0
        wanted = s.sectors * sector if s.cause in ("field", "write") else ideal
        before["l1 lines"] += times * max(1.0, _passes(view, s), s.sectors / costs.lines_at_once)
        after["l1 lines"] += times * max(1.0, s.ideal_sectors / costs.lines_at_once)
        before["l2"] += times * (ideal * (1.0 - lost) + s.sectors * request * lost) / gpu.l2_bytes_per_clock
        after["l2"] += times * ideal / gpu.l2_bytes_per_clock
        before["dram"] += times * wanted / gpu.dram_bytes_per_clock
        after["dram"] += times * ideal / gpu.dram_bytes_per_clock
    ratio = min(bound_ratio(before, after), PARTLY * max((s.overfetch for s in found), default=1.0))
    near = max(before["l2"], before["l1 lines"]) >= NEAR * max(before.values())
    return Gain.of(ratio, max([ratio, *(s.overfetch for s in found)])), near


def _passes(view: KernelView, found: Scattered) -> float:
    """Of the L1's banks, where every line is there."""
    if found.stride is None:
        return _UNKNOWN_PASSES if found.cause == "chunk" else float(found.sectors)
    limits = view.gpu.limits
    lanes = [n * found.stride for n in range(limits.warp_size)]
    return float(wavefronts(lanes, found.ideal_sectors, limits))
