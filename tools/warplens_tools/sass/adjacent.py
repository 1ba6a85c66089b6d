# SPDX-License-Identifier: Apache-2.0
"""Global accesses of one thread to neighbouring addresses, each by an instruction of its own.

The compiler joins them only where it can prove the alignment, which a pointer to a narrow type never gives.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.sass.addresses import AddressPattern, constant_of
from warplens_tools.sass.listing import Sass
from warplens_tools.sass.pipes import access_bytes, is_load
from warplens_tools.sass.registers import registers_of
from warplens_tools.sass.warps import WARP

#: Bytes that one access takes at most.
WIDEST = 16
_PLAIN = ("LDG", "STG")
#: Vectors from which a run is a stretch of its lane's own, though its end fills none: stencils are shorter.
_LONG = 3
#: A row's number times its length, which the launch passes.
_BY_LENGTH = re.compile(r"blockIdx\.[xyz]\*c\[|\*c\[[^\]]*\]\[[^\]]*\]")
_PLACE = re.compile(r"\[(R\d+)(?:\.\w+)*(?:\+(-?0x[0-9a-f]+))?\]")


class Run(msgspec.Struct, frozen=True):
    """Accesses of `width` bytes that follow one another in memory, where one of `vector` bytes takes several."""

    #: Of the kernel's instructions, in the order of their addresses.
    indices: tuple[int, ...]
    load: bool
    width: int
    vector: int

    @property
    def spared(self) -> tuple[int, ...]:
        """The accesses that a vector takes along."""
        each = self.vector // self.width
        whole = len(self.indices) // each * each
        return tuple(i for n, i in enumerate(self.indices[:whole]) if n % each)


def runs(sass: Sass) -> list[Run]:
    """Every such run whose lanes lie far enough apart, or at one address, for a vector access of each."""
    several = [own for own in neighbours(sass, _PLAIN) if len(own) > 1]
    # Following addresses takes longer than all else here: only where there is something to join.
    patterns = {p.index: p for p in sass.patterns if p.space == "global"} if several else {}
    found = [_run(sass, own, patterns) for own in several]
    return [run for run in found if run is not None and run.spared]


def neighbours(sass: Sass, opcodes: Collection[str]) -> Iterator[list[int]]:
    """Instructions of one of these opcodes in one basic block, from one register on, each where the one before it
    ends."""
    for block in sass.flow.blocks:
        groups: dict[tuple[object, ...], dict[int, int]] = {}
        version: dict[str, int] = {}
        for i in range(block.first, block.last + 1):
            x = sass.instructions[i]
            place = _place(x.operands) if x.opcode in opcodes and i not in sass.flow.rare else None
            if place is not None:
                key = (x.opcode, access_bytes(x), x.predicate, place[0], version.get(place[0], 0))
                groups.setdefault(key, {}).setdefault(place[1], i)
            for name in registers_of(x)[0]:
                version[name] = version.get(name, 0) + 1
        for group in groups.values():
            width = access_bytes(sass.instructions[next(iter(group.values()))])
            yield from _chains(group, width)


def _chains(group: dict[int, int], width: int) -> Iterator[list[int]]:
    chain: list[int] = []
    for at in sorted(group):
        if chain and at - width not in group:
            yield chain
            chain = []
        chain.append(group[at])
    if chain:
        yield chain


def _place(operands: Sequence[str]) -> tuple[str, int] | None:
    """Register and offset in bytes of an address that one register gives."""
    hit = next((m for o in operands if (m := _PLACE.search(o)) is not None), None)
    return (hit[1], int(hit[2] or "0", 16)) if hit is not None else None


def _run(sass: Sass, own: Sequence[int], patterns: dict[int, AddressPattern]) -> Run | None:
    first = sass.instructions[own[0]]
    width, pattern = access_bytes(first), patterns.get(own[0])
    place = _place(first.operands)
    if place is None or pattern is None:
        return None
    vector = WIDEST
    known = pattern.stride is not None
    while vector > width and (
        vector > len(own) * width
        or (not known and len(own) * width % vector and len(own) * width < _LONG * vector)
        or not _fits(pattern, place[1], vector)
    ):
        vector //= 2
    return Run(tuple(own), is_load(first), width, vector) if vector > width else None


def _fits(pattern: AddressPattern, offset: int, vector: int) -> bool:
    """Whether nothing that is known keeps every lane's first address from being aligned to `vector` bytes, or has the
    lanes overlap, as of a stencil."""
    if pattern.stride is not None:
        aligned = not pattern.alignment or pattern.alignment >= vector
        # Rows of a run-time length begin anywhere; where each lane takes a vector of one, they are meant to be whole.
        dense = pattern.stride == vector and bool(_BY_LENGTH.search(pattern.form))
        return (aligned and pattern.stride % vector == 0) or (
            dense and constant_of(pattern.form) % vector == 0
        )
    dense = pattern.sectors is not None and pattern.sectors[0] * SECTOR_BYTES <= WARP * pattern.width
    return not dense and offset % vector == 0
