# SPDX-License-Identifier: Apache-2.0
"""What the lanes of one warp touch of global memory: sectors, and the bytes that are wanted of them."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES


class Footprint(msgspec.Struct, frozen=True, order=True):
    """What the lanes of one warp touch. Sizes in bytes."""

    #: First byte of each lane's element.
    starts: tuple[int, ...]
    sectors: tuple[int, ...]
    wanted: int
    first: int
    #: Bytes of one lane.
    width: int
    #: Sectors of which every byte is wanted.
    whole: int
    #: Unbroken stretches of wanted bytes.
    runs: int = 1

    @property
    def ideal(self) -> int:
        """Sectors that would hold the wanted bytes if they lay side by side."""
        return max(1, math.ceil(self.wanted / SECTOR_BYTES))

    @property
    def overfetch(self) -> float:
        """Sectors over those that would hold what is wanted."""
        return len(self.sectors) / self.ideal


def footprint(starts: Sequence[int], ranges: Sequence[tuple[int, int]]) -> Footprint:
    """Of lanes whose elements start there, each taking `ranges` (offset, size) of its element."""
    # The same pattern comes again and again at other places: it is worked out once, from the sector it begins in.
    base = min(starts) // SECTOR_BYTES * SECTOR_BYTES
    shape = _footprint(tuple([s - base for s in starts]), tuple(ranges))
    moved = base // SECTOR_BYTES
    return msgspec.structs.replace(
        shape,
        starts=tuple(starts),
        sectors=tuple([n + moved for n in shape.sectors]),
        first=shape.first + base,
    )


@functools.lru_cache(maxsize=4096)
def _footprint(starts: tuple[int, ...], ranges: tuple[tuple[int, int], ...]) -> Footprint:
    spans = {(s + offset, s + offset + size) for s in starts for offset, size in ranges}
    sector = SECTOR_BYTES
    sectors = {n for low, high in spans for n in range(low // sector, (high - 1) // sector + 1)}
    wanted, end, runs = 0, -(2**62), 0
    for low, high in sorted(spans):
        runs += low > end
        wanted += max(0, high - max(low, end))
        end = max(end, high)
    first = min(low for low, _ in spans)
    width = sum(size for _, size in ranges)
    whole = sum(part >= sector for part in filled_sectors(spans, sector).values())
    return Footprint(starts, tuple(sorted(sectors)), wanted, first, width, whole, runs)


def filled_sectors(spans: Iterable[tuple[int, int]], size: int) -> dict[int, int]:
    """Bytes of each sector that the ranges have."""
    filled: dict[int, int] = {}
    for low, high in spans:
        for n in range(low // size, (high - 1) // size + 1):
            filled[n] = filled.get(n, 0) + min(high, (n + 1) * size) - max(low, n * size)
    return filled


def stride_of(starts: Sequence[int]) -> int | None:
    """Distance between neighbouring lanes; None where it is not the same for all."""
    steps = {b - a for a, b in itertools.pairwise(starts)}
    return steps.pop() if len(steps) == 1 else None


def merged(groups: Iterable[Iterable[tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
    """Every range of the groups once, in order."""
    return tuple(sorted({r for group in groups for r in group}))
