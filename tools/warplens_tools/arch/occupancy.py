# SPDX-License-Identifier: Apache-2.0
"""Theoretical occupancy: how many blocks of a kernel an SM holds at once, what limits them, what would help.

The rules are the published ones (CUDA C++ Best Practices Guide, "Occupancy"; the CUDA occupancy calculator):
registers are allocated per warp in units, from a quarter of the register file each; shared memory per block
in units, with what the system reserves; and there are at most so many warps and blocks.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from warplens_tools.arch.gpu import Limits
from warplens_tools.errors import InputError

Limiter = Literal["registers", "shared memory", "warps", "blocks"]


class Occupancy(msgspec.Struct, frozen=True):
    """What one SM holds of a kernel."""

    #: Resident blocks and warps; 0 where a single block already asks for more than there is.
    blocks: int
    warps: int
    #: Resident warps over the SM's maximum, 0 to 1.
    occupancy: float
    #: Every resource that allows no further block; none of them alone can be answered where there are two.
    limiters: tuple[Limiter, ...]
    #: Most registers per thread with which registers would admit one more block; None where they do not limit,
    #: or no count would.
    registers_for_next_block: int | None = None
    #: Most shared memory per block, static and dynamic, with which it would admit one more; None likewise.
    shared_bytes_for_next_block: int | None = None


def occupancy(limits: Limits, *, block_threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """Occupancy of a kernel.

    Args:
        block_threads: threads per block.
        registers: per thread, as ptxas reports.
        shared_bytes: per block, static and dynamic, without what the system reserves. A block may have more
            than the default 48 KB only after an opt-in; the opt-in is assumed.

    Raises:
        InputError: a negative figure, or a block of no threads.
    """
    if block_threads < 1 or registers < 0 or shared_bytes < 0:
        raise InputError("occupancy needs at least one thread per block and no negative figures")
    warps = -(-block_threads // limits.warp_size)
    allowed: dict[Limiter, int] = {
        "registers": _blocks_by_registers(limits, warps, registers),
        "shared memory": _blocks_by_shared(limits, shared_bytes),
        "warps": limits.max_warps // warps if block_threads <= limits.max_threads_per_block else 0,
        "blocks": limits.max_blocks,
    }
    blocks = min(allowed.values())
    limiters = tuple(name for name, count in allowed.items() if count == blocks)
    return Occupancy(
        blocks=blocks,
        warps=blocks * warps,
        occupancy=blocks * warps / limits.max_warps,
        limiters=limiters,
        registers_for_next_block=(
            _registers_for(limits, warps, blocks + 1) if "registers" in limiters else None
        ),
        shared_bytes_for_next_block=(
            _shared_for(limits, blocks + 1) if "shared memory" in limiters else None
        ),
    )


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _blocks_by_registers(limits: Limits, warps: int, registers: int) -> int:
    if registers > limits.max_registers_per_thread:
        return 0
    if registers == 0:
        return limits.max_blocks
    per_warp = _round_up(registers * limits.warp_size, limits.register_allocation_unit)
    parts = limits.warp_allocation_granularity
    if per_warp * _round_up(warps, parts) > limits.registers:
        return 0
    return limits.registers // parts // per_warp * parts // warps


def _blocks_by_shared(limits: Limits, shared_bytes: int) -> int:
    if shared_bytes > limits.max_shared_bytes_per_block:
        return 0
    per_block = _round_up(
        shared_bytes + limits.reserved_shared_bytes_per_block, limits.shared_allocation_unit
    )
    return limits.shared_bytes // per_block if per_block else limits.max_blocks


def _registers_for(limits: Limits, warps: int, blocks: int) -> int | None:
    counts = range(limits.max_registers_per_thread, 0, -1)
    return next((n for n in counts if _blocks_by_registers(limits, warps, n) >= blocks), None)


def _shared_for(limits: Limits, blocks: int) -> int | None:
    unit = limits.shared_allocation_unit
    room = limits.shared_bytes // blocks // unit * unit - limits.reserved_shared_bytes_per_block
    return min(room, limits.max_shared_bytes_per_block) if room >= 0 else None
