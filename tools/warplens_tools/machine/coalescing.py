# SPDX-License-Identifier: Apache-2.0
"""Sectors and cache lines that one warp access of global memory touches, from its address per lane.

Global memory is moved in sectors of 32 bytes, four to a cache line; the L1 looks up one line per cycle
("CUDA C++ Best Practices Guide", "Coalesced Access to Global Memory"). An access whose lanes leave a part
of each sector unused moves that part for nothing, unless another access, a later iteration, or another
warp uses it while the sector is still in a cache: `reused_by` says which.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES, Limits
from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.values.forms import Form, Symbol
from warplens_tools.evidence import Tier
from warplens_tools.kernel_code import KernelCode
from warplens_tools.machine.address_evidence import is_of_few, pattern_of
from warplens_tools.machine.apart import divisors, in_rows, multiples
from warplens_tools.machine.coming import Coming
from warplens_tools.machine.footprint import Footprint, filled_sectors, footprint, stride_of
from warplens_tools.machine.siblings import (
    Place,
    Siblings,
    likeness,
    place_of,
    siblings_among,
    without_constant,
)
from warplens_tools.sass.addresses import AddressPattern
from warplens_tools.sass.banks import wavefronts

#: Who uses the bytes of the touched sectors that the lanes themselves leave: nobody, other accesses of the
#: same elements, a later iteration of a loop, another warp of the block, another block.
ReusedBy = Literal["nobody", "fields", "loop", "block", "grid"]

#: Threads of a block that is not known; a warp then runs along x: true of every block at least a warp wide.
_THREADS = 256
#: What stands for an integer that is the same for all lanes and not known: large, and a multiple of a cache
#: line, so that an access counts as aligned and a stride as long unless the file says otherwise; so large that a
#: share of it (`n / threads`) is too, as a grid that shares a problem out is one for the card, not for the
#: problem. Where the second setting gives another answer, there is none.
_PROBES: tuple[dict[str, int], ...] = (
    {"parameter": 1 << 40, "loop": 0, "block": 1, "grid size": 256},
    {"parameter": 3 << 40, "loop": 32, "block": 5, "grid size": 512},
)
#: The least that an unknown integer may be: lanes that are then as far apart are so at any value. What lanes are
#: divided by is the length of a row or a plane, and stays long.
_LEAST = {"parameter": 1, "loop": 0, "block": 1, "grid size": 256}
#: Sectors over the sectors needed from which what the source says is compared with SASS.
_WASTE = 2.0
#: Factor within which the two settings must agree; a row that is not a multiple of a line costs one sector more.
_AGREE = 1.3


class WarpAccess(msgspec.Struct, frozen=True):
    """One global access of the source as a full warp makes it. Sizes in bytes."""

    access: ArrayAccess
    #: Bytes that the lanes want, every byte once.
    wanted: int
    sectors: int
    #: Sectors that hold the wanted bytes if they lay side by side.
    ideal_sectors: int
    #: Of the sectors, those of which every byte is wanted.
    whole: int
    #: Share of the sectors that a store and its like leave partly unwritten, and whether an access reads them before.
    partial_share: float
    read_too: bool
    #: Share of the sectors that no other warp of the block touches too, each such counted once.
    unshared: float
    lines: int
    #: Passes of the L1's banks, as of shared memory, where every line is there.
    passes: int
    #: Distance between neighbouring lanes; None where it is not the same for all.
    stride: int | None
    reused_by: ReusedBy
    #: Sectors that must come from device memory for this request, what others use of them subtracted, and the
    #: neighbours that come with them added.
    dram_sectors: float
    #: Whether the first byte stands where a sector begins.
    aligned: bool
    #: Bytes of one element of the array, and how many of them the kernel uses.
    element: int
    used: int
    #: Lines whose instructions may be this access: its own, and those that use the record it is bound to.
    lines_used: tuple[int, ...]
    #: Unbroken stretches of bytes that the lanes want.
    runs: int = 1
    #: Whether something else goes along between the lanes (`machine.apart`).
    in_rows: bool = False
    #: The tier that tells it.
    tier: Tier = "source"

    @property
    def overfetch(self) -> float:
        """Sectors moved over sectors needed; 1.0 is perfect."""
        return self.sectors / self.ideal_sectors


def warp_accesses(code: KernelCode) -> tuple[WarpAccess, ...]:
    """The global accesses of the kernel whose addresses are known well enough, in text order."""
    return _Coalescing(code).joined()


def accesses_by_loaded(code: KernelCode) -> tuple[WarpAccess, ...]:
    """Those whose lanes are apart by what the kernel loads from one place for all of them (a row's length of the data,
    most often), as a parameter of that value would keep them: beside `warp_accesses`, which leaves them open."""
    return _Coalescing(code).by_loaded()


def accesses_in_calls(code: KernelCode, accesses: Iterable[ArrayAccess]) -> tuple[WarpAccess, ...]:
    """Accesses of functions that the kernel calls, as a full warp makes them, as far as the source tells."""
    return tuple(_Coalescing(code)._in_source(accesses))


class _Coalescing:
    """The global accesses of one kernel: as its source tells them, or else as SASS does."""

    def __init__(self, code: KernelCode) -> None:
        self.code, self.limits = code, code.gpu.limits

    def joined(self) -> tuple[WarpAccess, ...]:
        """The accesses, where the source does not tell or tells of waste as SASS has them, if it tells."""
        found = self._in_source(self.code.global_accesses)
        if self.code.compiled is None:
            return tuple(found)
        told = {w.access.span: w for w in found}
        every = [self._from_sass(a, told.get(a.span)) for a in self.code.global_accesses]
        return tuple(w for w in every if w is not None)

    def by_loaded(self) -> tuple[WarpAccess, ...]:
        """See `accesses_by_loaded`."""
        open_ = [a for a in self.code.global_accesses if a.index is None and a.traced is not None]
        told = [(a, a.traced.told_by_lanes) for a in open_ if a.traced is not None]
        return tuple(self._in_source([msgspec.structs.replace(a, index=f) for a, f in told if f is not None]))

    def _in_source(self, accesses: Iterable[ArrayAccess]) -> list[WarpAccess]:
        places = [p for a in accesses if (p := place_of(self.code, a)) is not None]
        lanes, groups = _Lanes(self.code), siblings_among(places)
        return [w for p in places if (w := lanes.warp_access(p, groups[likeness(p)])) is not None]

    def _from_sass(self, access: ArrayAccess, told: WarpAccess | None) -> WarpAccess | None:
        if told is not None and told.overfetch < _WASTE:
            return told
        if is_of_few(self.code, access):
            return None
        pattern = pattern_of(self.code, access, "global")
        if pattern is None or pattern.sectors is None:
            return told
        # As in the source an offset that is not known counts as aligned: the fewest sectors.
        sectors, size = pattern.sectors[0], SECTOR_BYTES
        ideal = max(1, math.ceil(pattern.wanted / size))
        if told is not None and (pattern.wanted < told.wanted or sectors >= _WASTE * ideal):
            return told
        return WarpAccess(
            access=access,
            wanted=pattern.wanted,
            sectors=sectors,
            ideal_sectors=ideal,
            whole=0 if sectors > ideal else ideal,
            partial_share=1.0 if sectors > ideal else 0.0,
            read_too=access.reads,
            unshared=1.0,
            lines=pattern.lines,
            passes=_passes(self.limits, pattern),
            stride=pattern.stride,
            # Who else uses what is left of the sectors SASS does not tell: taken to be served from L1.
            reused_by="nobody" if sectors <= ideal else "block",
            dram_sectors=pattern.wanted / size,
            aligned=pattern.sectors[0] < pattern.sectors[1] or pattern.alignment % size == 0,
            element=pattern.width,
            used=pattern.width,
            lines_used=(access.span.line,),
            tier="binary",
        )


def _passes(limits: Limits, pattern: AddressPattern) -> int:
    if pattern.stride is None:
        return pattern.lines
    return wavefronts([lane * abs(pattern.stride) for lane in range(limits.warp_size)], pattern.width, limits)


class _Lanes:
    """Evaluates index forms for the lanes of a warp."""

    def __init__(self, code: KernelCode) -> None:
        self.limits = code.gpu.limits
        self.known = code.arguments | code.launches.grid | code.template_numbers
        #: What a run of the program without arguments passes.
        self.usual = code.usual_arguments
        known = code.launches.lanes(self.limits.warp_size)
        self.block, self.block_known = known or code.launches.assumed_lanes(_THREADS), known is not None
        self.fetched = max(1, code.gpu.costs.fetch_bytes // SECTOR_BYTES)
        self.coming = Coming(self.block, self.limits.warp_size, self.known, self._value)
        #: What was worked out once: of siblings, and of index forms without their constants.
        self._partials: dict[int, float] = {}
        self._shares: dict[int, float] = {}
        self._bases: dict[tuple[object, ...], list[int] | None] = {}

    def warp_access(self, place: Place, siblings: Siblings) -> WarpAccess | None:
        """The access; None where an address is unknown or hangs on what is unknown."""
        index = place.access.index
        if index is None:
            return None
        shapes = [self._footprint(place, probe) for probe in _PROBES]
        if any(s is None for s in shapes):
            return None
        counts = sorted((len(s.sectors), s) for s in shapes if s is not None)
        if counts[-1][0] > _AGREE * counts[0][0]:
            return None
        shape = self._told(place, counts[0][1])
        return self._described(place, shape, siblings) if shape is not None else None

    def _told(self, place: Place, shape: Footprint) -> Footprint | None:
        """The footprint; None where it is wasteful because lanes are a run-time value apart that may well be small."""
        if len(shape.sectors) < _WASTE * shape.ideal or self._in_rows(place):
            return shape
        index = place.access.index
        values = self._values(index, _PROBES[0])
        long = {s.name: values[s.name] for s in divisors(index)} if index is not None else {}
        least = self._footprint(place, _LEAST, {**long, **self.usual})
        return shape if least is None or least.overfetch >= shape.overfetch else None

    def _in_rows(self, place: Place) -> bool:
        index, block = place.access.index, self.block if self.block_known else None
        return index is not None and in_rows(index, place.element, place.access.loops, block, self.limits)

    def _footprint(
        self, place: Place, probe: Mapping[str, int], usual: Mapping[str, int] | None = None
    ) -> Footprint | None:
        """Of a place, with numbers that are not known as `probe` has them, or as in a `usual` run."""
        lanes = self.coming.lanes(place.access, probe)
        values = self._values(place.access.index, probe)
        values |= {name: at for name, at in (usual or {}).items() if name in values}
        starts = self._elements(place, values, lanes)
        return footprint(starts, place.ranges) if starts is not None else None

    def _described(self, place: Place, shape: Footprint, siblings: Siblings) -> WarpAccess:
        ideal = shape.ideal
        used = sum(size for _, size in place.ranges)
        reused_by: ReusedBy = "nobody"
        unshared, partial, read_too = 1.0, 0.0, False
        dram = float(len(shape.sectors))
        if len(shape.sectors) > ideal:
            reused_by = self._reused_by(place, shape, siblings)
            unshared, partial = self._unshared(place), self._partial(siblings)
            read_too = siblings.read
            own = reused_by in ("nobody", "fields")
            own = own and not siblings.walked
            dram = self._shared_sectors(siblings) if own else shape.wanted / SECTOR_BYTES
            used = max(used, sum(size for _, size in siblings.union))
        return WarpAccess(
            access=place.access,
            wanted=shape.wanted,
            sectors=len(shape.sectors),
            ideal_sectors=ideal,
            whole=shape.whole,
            partial_share=partial,
            read_too=read_too,
            unshared=unshared,
            passes=wavefronts(shape.starts, min(r[1] for r in place.ranges), self.limits),
            lines=len({s * SECTOR_BYTES // self.limits.cache_line_bytes for s in shape.sectors}),
            stride=stride_of(shape.starts),
            reused_by=reused_by,
            dram_sectors=min(dram, len(shape.sectors) * self.fetched),
            aligned=shape.first % SECTOR_BYTES == 0,
            element=place.element,
            used=min(used, place.element),
            lines_used=place.lines,
            runs=shape.runs,
            in_rows=self._in_rows(place),
        )

    def _shared_sectors(self, siblings: Siblings) -> float:
        """An access's share of the sectors that it and its siblings touch together."""
        known = self._shares.get(id(siblings))
        if known is not None:
            return known
        touched: set[int] = set()
        for sibling in siblings.places:
            shape = self._footprint(sibling, _PROBES[0])
            touched.update(shape.sectors if shape is not None else ())
        found = len(touched)
        if siblings.places[0].access.reads:
            # Missing sectors come with their neighbours.
            found = len({s // self.fetched for s in touched}) * self.fetched
        return self._shares.setdefault(id(siblings), found / len(siblings.places))

    def _reused_by(self, place: Place, shape: Footprint, siblings: Siblings) -> ReusedBy:
        """Who uses what is left of the sectors."""
        index = place.access.index
        values = self._values(index, _PROBES[0])
        loops = {loop.counter or f"{loop.variable}@{loop.offset}" for loop in place.access.loops}
        steps: list[tuple[ReusedBy, Iterable[str]]] = [
            ("loop", sorted(loops)),
            ("grid", ("blockIdx.x", "blockIdx.y", "blockIdx.z")),
        ]
        if self._next_warp_shares(place, values, shape):
            return "block"
        for user, names in steps:
            for name in names:
                if name in values and self._moves_inside(place, values, name):
                    return user
        whole = sum(size for _, size in siblings.union) >= place.element and place.element > shape.width
        return "fields" if whole or siblings.walked else "nobody"

    def _next_warp_shares(self, place: Place, values: Mapping[str, int], shape: Footprint) -> bool:
        x, y, z = self.block
        size = self.limits.warp_size
        lanes = [(n % x, n // x % y, n // (x * y)) for n in range(size, min(2 * size, x * y * z))]
        starts = self._elements(place, values, lanes) if lanes else None
        if starts is None:
            return False
        other = footprint(starts, place.ranges)
        return bool(set(other.sectors) & set(shape.sectors)) and other.starts != shape.starts

    def _partial(self, siblings: Siblings) -> float:
        """Share of the sectors that the siblings write of which they leave bytes."""
        known = self._partials.get(id(siblings))
        if known is not None:
            return known
        spans: set[tuple[int, int]] = set()
        for sibling in siblings.places:
            shape = self._footprint(sibling, _PROBES[0]) if sibling.access.writes else None
            if shape is not None:
                spans |= {(s + at, s + at + size) for s in shape.starts for at, size in sibling.ranges}
        filled = filled_sectors(spans, SECTOR_BYTES)
        share = sum(part < SECTOR_BYTES for part in filled.values()) / max(1, len(filled))
        return self._partials.setdefault(id(siblings), share)

    def _unshared(self, place: Place) -> float:
        """Sectors that the block touches over those that its warps touch, each for itself."""
        x, y, z = self.block
        size, values = self.limits.warp_size, self._values(place.access.index, _PROBES[0])
        every = [(n % x, n // x % y, n // (x * y)) for n in range(x * y * z)]
        touched: list[tuple[int, ...]] = []
        for first in range(0, len(every), size):
            starts = self._elements(place, values, every[first : first + size])
            if starts is None:
                return 1.0
            touched.append(footprint(starts, place.ranges).sectors)
        return len(set().union(*touched)) / sum(map(len, touched))

    def _moves_inside(self, place: Place, values: Mapping[str, int], name: str) -> bool:
        """Whether the next value of a symbol moves lanes by less than a sector."""
        lane = self.coming.first[:1]
        here = self._elements(place, values, lane)
        there = self._elements(place, {**values, name: values[name] + 1}, lane)
        moved = abs(there[0] - here[0]) if here and there else 0
        return 0 < moved < SECTOR_BYTES

    def _values(self, index: Form | None, probe: Mapping[str, int]) -> dict[str, int]:
        if index is None:
            return {}
        found = {s.name: self._value(s, probe) for s in index.symbols if s.kind in _PLAIN}
        apart = multiples(index) if probe is not _LEAST else {}
        return found | {name: found[name] * n for name, n in apart.items() if name not in self.known}

    def _value(self, symbol: Symbol, probe: Mapping[str, int]) -> int:
        if symbol.kind == "block size":
            return self.block["xyz".index(symbol.name[-1])]
        if symbol.name in self.known:
            return self.known[symbol.name]
        return probe[symbol.kind]

    def _elements(
        self, place: Place, values: Mapping[str, int], lanes: Sequence[tuple[int, int, int]]
    ) -> list[int] | None:
        """Byte address of each lane's element, from the array's start."""
        index = place.access.index
        if index is None:
            return None
        terms = without_constant(index)
        key = (terms, tuple(values.items()), tuple(lanes))
        if key not in self._bases:
            self._bases[key] = _evaluated(Form(terms), values, lanes)
        bases, constant = self._bases[key], index.constant
        return None if bases is None else [(at + constant) * place.element for at in bases]


def _evaluated(
    form: Form, values: Mapping[str, int], lanes: Sequence[tuple[int, int, int]]
) -> list[int] | None:
    found = []
    for x, y, z in lanes:
        at = form.evaluate({**values, "threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z})
        if at is None:
            return None
        found.append(at)
    return found


_PLAIN = frozenset({"block", "block size", "grid size", "parameter", "loop"})
