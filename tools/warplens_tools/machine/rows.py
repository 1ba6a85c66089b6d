# SPDX-License-Identifier: Apache-2.0
"""Rows that data chooses: which sectors each covers hangs on its pitch and on where the first begins, not on which."""

from __future__ import annotations

import math

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES, Limits
from warplens_tools.cuda.facts.accesses import ArrayAccess, indirect_accesses
from warplens_tools.cuda.values.forms import LOADED, Form
from warplens_tools.kernel_code import KernelCode
from warplens_tools.sass.banks import warp_lanes

#: What stands for an integer of the launch that is not known: a multiple of a cache line, so that it counts as aligned.
_ALIGNED = 4096


class Row(msgspec.Struct, frozen=True):
    """An access by which a warp's lanes read or write stretches of rows that data chooses. Bytes."""

    access: ArrayAccess
    #: Of one row that the lanes access together, and from one row to the next.
    length: int
    pitch: int
    #: Sectors of one stretch on average over the rows, and if it began where a sector begins.
    sectors: float
    ideal_sectors: int
    #: Stretches of a full warp.
    count: float

    @property
    def overfetch(self) -> float:
        """Sectors moved over sectors needed."""
        return self.sectors / self.ideal_sectors


def rows(code: KernelCode) -> list[Row]:
    """The accesses to rows whose pitch and beginning the file tells, in text order."""
    found = indirect_accesses(code.tree, code.kernel, code.dim3)
    return [r for a in found if (r := _row(code, a)) is not None]


def _row(code: KernelCode, access: ArrayAccess) -> Row | None:
    size, index = code.element_bytes(access.element_type), access.traced
    if size is None or index is None or access.member:
        return None
    chosen = [t for t in index.terms if any(s.operation == LOADED for s in t[0])]
    if len(chosen) != 1 or any(s.operands and s.operation != LOADED for s in chosen[0][0]):
        return None
    same = {
        s.name: code.arguments.get(s.name, _ALIGNED)
        for s in index.symbols
        if s.kind not in ("thread", "derived")
    }
    pitch = size * abs(chosen[0][1]) * math.prod(same.get(s.name, 1) for s in chosen[0][0])
    same |= {s.name: 0 for s in index.symbols if s.kind == "loop"}
    rest = Form(tuple(t for t in index.terms if t is not chosen[0]))
    places = set()
    for x, y, z in warp_lanes(code.block or (256, 1, 1), code.gpu.limits.warp_size):
        at = rest.evaluate({**same, "threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z})
        if at is None:
            return None
        places.add(at * size)
    length = max(places) - min(places) + size
    if length != size * len(places) or length > pitch:
        return None
    return _described(code.gpu.limits, access, min(places), length, pitch, size)


def _described(limits: Limits, access: ArrayAccess, first: int, length: int, pitch: int, size: int) -> Row:
    sector = SECTOR_BYTES
    step = math.gcd(pitch, sector)
    starts = [first + n * step for n in range(sector // step)]
    counts = [(s + length - 1) // sector - s // sector + 1 for s in starts]
    ideal = -(-length // sector)
    return Row(access, length, pitch, sum(counts) / len(counts), ideal, limits.warp_size * size / length)
