# SPDX-License-Identifier: Apache-2.0
"""Chains of loads in a loop: each one's address is made of what the one before brought."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from warplens_tools.evidence import Instruction
from warplens_tools.machine.waiting import LoopPass
from warplens_tools.sass.listing import Sass
from warplens_tools.sass.registers import place_registers, registers_of

#: Round trips of an iteration that make a chain, where the next iteration's do not wait for them.
ROUND_TRIPS = 3
_LOADS = ("LDG", "LD", "ATOMG")
#: What brings a value that hangs on data.
_PICKS = (*_LOADS, "SEL", "LDS", "LDL", "TEX", "TLD")


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
    held = _Levels()
    most, waiting = [0, 0], dict[int, None]()
    for turn in (0, 1):
        for i in body:
            x = sass.instructions[i]
            written, read = registers_of(x)
            # A predicate chooses; what a load's address is made of comes by registers.
            taken = [name for name in read if not name.startswith(("P", "UP"))]
            before = held.most(taken, x.predicate)
            if x.opcode in _LOADS:
                waited = held.most(place_registers(x), x.predicate)
                if waited:
                    waiting[i] = None
                before = waited + 1
                most[turn] = max(most[turn], before)
            held.write(written, x.predicate, before)
    return most[0], most[1], list(waiting)


class _Levels:
    """By register: how many loads, one after the other, its value waits for."""

    def __init__(self) -> None:
        self.plain: dict[str, int] = {}
        #: Of what was written under a predicate: that, and the level for who reads it under the same one.
        self.guarded: dict[str, tuple[str, int]] = {}

    def most(self, names: Iterable[str], predicate: str) -> int:
        """The highest level of some registers, as an instruction under `predicate` finds them."""
        return max((self._of(name, predicate) for name in names), default=0)

    def _of(self, name: str, predicate: str) -> int:
        guard, level = self.guarded.get(name, ("", 0))
        return level if guard and guard == predicate else max(level, self.plain.get(name, 0))

    def write(self, names: Iterable[str], predicate: str, level: int) -> None:
        """Registers that an instruction under `predicate` writes; "" where it has none."""
        for name in names:
            if predicate:
                self.guarded[name] = (predicate, level)
            else:
                self.guarded.pop(name, None)
                self.plain[name] = level


def led_by_data(sass: Sass, body: Sequence[int]) -> frozenset[int]:
    """Indices of a loop's loads whose address hangs on what an earlier iteration loaded or chose: a node's child, the
    half that is searched on. Lanes part there, though no address is made of the lane's number."""
    code = [(i, sass.instructions[i], *registers_of(sass.instructions[i])) for i in body]
    held: set[str] = set()
    for _, x, written, read in code:
        _flow(held, x, written, x.opcode in _PICKS or bool(x.predicate) or bool(held & _values(read)))
    found: set[int] = set()
    for i, x, written, read in code:
        if place_registers(x) & held:
            found.add(i)
        _flow(held, x, written, bool(held & _values(read)))
    return frozenset(found)


def _flow(held: set[str], x: Instruction, written: frozenset[str], comes: bool) -> None:
    """What an instruction makes of the registers that hold a value of some kind."""
    if comes:
        held |= _values(written)
    elif not x.predicate:
        held -= written


def _values(names: Iterable[str]) -> set[str]:
    """Without predicates."""
    return {name for name in names if not name.startswith(("P", "UP"))}
