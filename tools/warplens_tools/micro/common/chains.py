# SPDX-License-Identifier: Apache-2.0
"""Chains of loads in a loop: each one's address is made of what the one before brought."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.machine.waiting import LoopPass
from warplens_tools.sass.listing import Sass
from warplens_tools.sass.registers import place_registers, registers_of

#: Round trips of an iteration that make a chain, where the next iteration's do not wait for them.
ROUND_TRIPS = 3
_LOADS = ("LDG", "LD", "ATOMG")
#: What goes through shared memory, whatever its place there.
_SHARED, _TO_SHARED, _FROM_SHARED = "shared memory", ("STS", "ATOMS"), ("LDS", "ATOMS")


class Chain(msgspec.Struct, frozen=True):
    """Loads of a loop of which each waits for the one before."""

    #: Round trips to memory in an iteration, one after the other.
    trips: int
    #: Whether the next iteration's first one waits for this iteration's last.
    carried: bool
    #: Of the loads whose address was loaded in the loop.
    indices: tuple[int, ...]


def chain_of(sass: Sass, loop: LoopPass) -> Chain | None:
    """The longest chain of a loop's loads; None where it is short."""
    first, after, indices = _levels(sass, loop.indices)
    carried = after > first
    trips = after - first if carried else first
    if not indices or not (carried or trips >= ROUND_TRIPS):
        return None
    return Chain(trips, carried, tuple(indices))


def _levels(sass: Sass, body: Sequence[int]) -> tuple[int, int, list[int]]:
    """Most loads one after the other in one pass, in two passes, and those that wait for another."""
    level: dict[str, int] = {}
    most, waiting = [0, 0], dict[int, None]()
    for turn in (0, 1):
        for i in body:
            x = sass.instructions[i]
            written, read = registers_of(x)
            through = (_SHARED,) if x.opcode in _FROM_SHARED else ()
            before = max((level.get(name, 0) for name in (*read, *through)), default=0)
            if x.opcode in _TO_SHARED:
                level[_SHARED] = max(before, level.get(_SHARED, 0))
            if x.opcode in _LOADS:
                waited = max((level.get(name, 0) for name in place_registers(x)), default=0)
                if waited:
                    waiting[i] = None
                before = waited + 1
                most[turn] = max(most[turn], before)
            for name in written:
                level[name] = max(before, level.get(name, 0)) if x.predicate else before
    return most[0], most[1], list(waiting)
