# SPDX-License-Identifier: Apache-2.0
"""Shared-memory bank conflicts of one warp access, computed from the lanes' byte addresses."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

from warplens_tools.arch.gpu import Limits

#: Requests that are drawn.
_DRAWS = 200


def wavefronts(addresses: Sequence[int], width: int, limits: Limits) -> int:
    """Passes the shared memory needs for one warp access of `width` bytes a lane.

    Lanes that read the same word share it. Accesses of 8 bytes are served per half warp, of 16 bytes
    per quarter warp ("CUDA C++ Programming Guide", "Shared Memory" of compute capability 5.x and later);
    a pass serves one distinct word per bank.
    """
    lanes = max(1, len(addresses) * 4 // max(width, 4))
    return sum(
        _passes(addresses[start : start + lanes], width, limits) for start in range(0, len(addresses), lanes)
    )


def conflict_degree(addresses: Sequence[int], width: int, limits: Limits) -> float:
    """Passes over the passes a conflict-free access of that width needs; 1.0 is free of conflicts."""
    ideal = max(1, len(addresses) * max(width, 4) // (limits.shared_banks * limits.shared_bank_bytes))
    return wavefronts(addresses, width, limits) / ideal


@functools.cache
def drawn_wavefronts(words: int, limits: Limits, copies: int = 1) -> float:
    """Wavefronts of a request whose lanes read random ones of `words` words: the mean of many draws, always the same
    ones. 1 up to as many words as there are banks. Of `copies` that lie side by side each lane reads its own."""
    draw = random.Random(0)
    total = 0
    for _ in range(_DRAWS):
        entries = max(words // copies, 1)
        lanes = [
            (draw.randrange(entries) * copies + lane % copies) * limits.shared_bank_bytes
            for lane in range(limits.warp_size)
        ]
        total += wavefronts(lanes, limits.shared_bank_bytes, limits)
    return total / _DRAWS


def warp_lanes(block: tuple[int, int, int], warp_size: int = 32) -> list[tuple[int, int, int]]:
    """threadIdx (x, y, z) of the lanes of a block's first warp; fewer than `warp_size` in a small block."""
    x, y, z = block
    count = min(warp_size, x * y * z)
    return [(lane % x, lane // x % y, lane // (x * y)) for lane in range(count)]


def _passes(addresses: Sequence[int], width: int, limits: Limits) -> int:
    words: dict[int, set[int]] = {}
    for address in addresses:
        for word in range(
            address // limits.shared_bank_bytes, (address + width - 1) // limits.shared_bank_bytes + 1
        ):
            words.setdefault(word % limits.shared_banks, set()).add(word)
    return max((len(found) for found in words.values()), default=0)
