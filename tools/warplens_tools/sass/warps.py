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


def launch_of(block: Block | None, arch: str, warp: tuple[int, int, int] | None = None) -> Launch | str:
    """threadIdx of a warp's lanes, and the words in which a kernel finds its launch; else why there is none.

    `warp` numbers one warp along the block's axes; without it the numbers stay open.
    """
    first = 0x360 if int("".join(c for c in arch if c.isdigit()) or 0) >= 100 else 0
    grid = 0x370 if first else 0xC
    constants = {(0, grid + 4 * n): lanes.atom(f"gridDim.{axis}") for n, axis in enumerate("xyz")}
    sizes = [lanes.atom(f"blockDim.{a}") for a in "xyz"] if block is None else map(lanes.number, block)
    constants |= {(0, first + 4 * n): size for n, size in enumerate(sizes)}
    if block is None:
        row = lanes.per_lane(range(WARP))
        threads = (_plus(row, WARP, "warp.x"), lanes.atom("warp.y"), lanes.atom("warp.z"))
        return Launch(threads, WARP, constants)
    steps = _steps(block)
    if steps is None:
        return f"a block of {' x '.join(map(str, block))} threads does not fall into equal warps"
    x, y, _ = block
    count = min(WARP, math.prod(block))
    within = [
        [n if steps[0] == WARP else n % x for n in range(count)],
        [0 if steps[0] == WARP else n // x % y for n in range(count)],
        [0 if steps[0] == WARP else n // (x * y) for n in range(count)],
    ]
    along = [
        _plus(lanes.per_lane(own), step, f"warp.{axis}" if size > step else "", warp[n] if warp else None)
        for n, (own, step, size, axis) in enumerate(zip(within, steps, block, "xyz", strict=True))
    ]
    return Launch((along[0], along[1], along[2]), count, constants)


def warps_of(block: Block) -> list[tuple[int, int, int]]:
    """Numbers of a block's warps along its axes, as `launch_of` counts them."""
    steps = _steps(block)
    if steps is None:
        return []
    counts = [range(max(1, -(-size // step))) for size, step in zip(block, steps, strict=True)]
    return [(x, y, z) for z in counts[2] for y in counts[1] for x in counts[0]]


def _steps(block: Block) -> tuple[int, int, int] | None:
    """By how much threadIdx grows from warp to warp along each axis; None where warps differ otherwise."""
    x, y, z = block
    if x % WARP == 0 or (y == 1 and z == 1):
        return WARP, 1, 1
    rows = WARP // x
    if WARP % x or (y % rows and rows % y and z > 1):
        return None
    if y % rows == 0 or z == 1:
        return (x, rows, 1) if y % rows == 0 or y < rows else None
    return x, y, rows // y


def _plus(own: Value, step: int, name: str, number: int | None = None) -> Value:
    if not name:
        return own
    moved = lanes.number(step * number) if number is not None else Value((((name,), step),))
    both = lanes.add(own, moved)
    assert isinstance(both, Value), "two terms are few"
    return both


def launch_atoms() -> dict[str, Atom]:
    """What is known of the names that `launch_of` leaves open."""
    found = {f"warp.{axis}": Atom(1, natural=True) for axis in "xyz"}
    found |= {f"gridDim.{axis}": Atom(1, natural=True) for axis in "xyz"}
    found |= {f"blockDim.{axis}": Atom(WARP if axis == "x" else 1, natural=True) for axis in "xyz"}
    return found
