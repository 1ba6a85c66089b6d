# SPDX-License-Identifier: Apache-2.0
"""What a launch fixes for the lanes of a warp: threadIdx, and the words in which a kernel finds its launch."""

from __future__ import annotations

import math

import msgspec

from warplens_tools.sass import lanes
from warplens_tools.sass.lanes import Atom, Value

Block = tuple[int, int, int]
WARP = 32


class Launch(msgspec.Struct, frozen=True):
    """threadIdx (x, y, z) of a warp's lanes, how many they are, and known words by constant bank and offset."""

    threads: tuple[Value, Value, Value]
    lanes: int
    constants: dict[tuple[int, int], Value]
    #: Extents of the block; None where they are not known.
    block: Block | None = None


def launch_of(block: Block | None, arch: str, warp: int | None = None) -> Launch | str:
    """threadIdx of a warp's lanes, and the words in which a kernel finds its launch; else why there is none.

    `warp` numbers one warp of the block; without it the launch is that of any warp, its place an atom.
    """
    first = 0x360 if int("".join(c for c in arch if c.isdigit()) or 0) >= 100 else 0
    grid = 0x370 if first else 0xC
    constants = {(0, grid + 4 * n): lanes.atom(f"gridDim.{axis}") for n, axis in enumerate("xyz")}
    sizes = [lanes.atom(f"blockDim.{a}") for a in "xyz"] if block is None else map(lanes.number, block)
    constants |= {(0, first + 4 * n): size for n, size in enumerate(sizes)}
    if block is None:
        row = lanes.per_lane(range(WARP))
        return Launch((_plus(row, WARP, "x"), lanes.atom("warp.y"), lanes.atom("warp.z")), WARP, constants)
    numbers = range(min(WARP, math.prod(block)))
    if warp is not None:
        x, y, z = (
            lanes.per_lane(own) for own in _threads(block, range(WARP * warp, WARP * warp + len(numbers)))
        )
        return Launch((x, y, z), len(numbers), constants, block)
    steps = _steps(block)
    if steps is None:
        return f"a block of {' x '.join(map(str, block))} threads does not fall into equal warps"
    x, y, z = (
        _plus(lanes.per_lane(own), step, axis) if size > step else lanes.per_lane(own)
        for own, step, size, axis in zip(_threads(block, numbers), steps, block, "xyz", strict=True)
    )
    return Launch((x, y, z), len(numbers), constants, block)


def full_warps(block: Block) -> int:
    """Warps of a block that have all their lanes; 1 for a block of fewer threads than a warp."""
    return max(1, math.prod(block) // WARP)


def _threads(block: Block, numbers: range) -> tuple[list[int], list[int], list[int]]:
    """threadIdx along each axis of the threads of these numbers in the block."""
    x, y, _ = block
    return [n % x for n in numbers], [n // x % y for n in numbers], [n // (x * y) for n in numbers]


def _steps(block: Block) -> tuple[int, int, int] | None:
    """By how much threadIdx grows from warp to warp along each axis; None where warps differ otherwise."""
    x, y, z = block
    if x % WARP == 0 or (y == 1 and z == 1):
        return WARP, 1, 1
    rows = WARP // x
    if WARP % x or (y % rows and rows % y):
        return None
    return (x, rows, 1) if y % rows == 0 else (x, y, rows // y)


def _plus(own: Value, step: int, axis: str) -> Value:
    both = lanes.add(own, Value((((f"warp.{axis}",), step),)))
    assert isinstance(both, Value), "two terms are few"
    return both


def launch_atoms() -> dict[str, Atom]:
    """What is known of the names that `launch_of` leaves open."""
    found = {f"warp.{axis}": Atom(1, natural=True) for axis in "xyz"}
    found |= {f"gridDim.{axis}": Atom(1, natural=True) for axis in "xyz"}
    found |= {f"blockDim.{axis}": Atom(WARP if axis == "x" else 1, natural=True) for axis in "xyz"}
    return found
