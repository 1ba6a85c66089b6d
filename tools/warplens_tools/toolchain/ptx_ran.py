# SPDX-License-Identifier: Apache-2.0
"""What of a kernel never ran, by the marks that its twin left (`ptx_marks.py`)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.toolchain.ptx_marks import Comparison, Line, Loop, Marks


class OneSided(msgspec.Struct, frozen=True):
    """A comparison that was made, and whose outcome was always the same."""

    at: Line
    constants: tuple[str, ...]


class Untried(msgspec.Struct, frozen=True):
    """Of an edit: places that nothing ran of and that something it asks for leads to; comparisons with one outcome."""

    places: frozenset[Line]
    one_sided: tuple[OneSided, ...]


class NeverRan(msgspec.Struct, frozen=True):
    """Places of the source that nothing ran of, comparisons with one outcome, and loops that nobody went round."""

    places: frozenset[Line]
    one_sided: tuple[OneSided, ...]
    once: frozenset[Line]


def never_ran(marks: Marks, ran: Sequence[str]) -> NeverRan | None:
    """What did not, on all the inputs that digits of marks were taken on; None where some are not this twin's."""
    if (found := _found(marks, ran)) is None:
        return None
    run = _places(marks, found)
    every = frozenset(line for lines in marks.blocks for line in lines)
    return NeverRan(every - run, _one_sided(marks.comparisons, found), _once(marks.loops, found))


def untried(marks: Marks, ran: Sequence[str]) -> Untried | None:
    """What an edit asks for of which one answer never came, as `never_ran`."""
    if (found := _found(marks, ran)) is None:
        return None
    led = _led_to(marks, found)
    places = frozenset(line for k in led for line in marks.blocks[k]) - _places(marks, found)
    return Untried(places, _one_sided([c for c in marks.comparisons if c.asks], found))


def _found(marks: Marks, ran: Sequence[str]) -> list[bool] | None:
    """Which marks any digits have; None where there are none, or some are not this twin's."""
    if not ran or any(len(digits) != max(marks.count, 1) for digits in ran):
        return None
    return [any(digits[k] == "1" for digits in ran) for k in range(marks.count)]


def _places(marks: Marks, found: Sequence[bool]) -> frozenset[Line]:
    """What of the source ran."""
    return frozenset(line for k, lines in enumerate(marks.blocks) if found[k] for line in lines)


def _led_to(marks: Marks, found: Sequence[bool]) -> set[int]:
    """The blocks that never ran and are behind a branch that asks for something, in one that did."""
    after: dict[int, list[int]] = {}
    for here, there, _ in marks.ways:
        after.setdefault(here, []).append(there)
    left = [there for here, there, asks in marks.ways if asks and found[here] and not found[there]]
    led = set(left)
    while left:
        more = [there for there in after.get(left.pop(), ()) if not found[there] and there not in led]
        led |= set(more)
        left += more
    return led


def _one_sided(comparisons: Sequence[Comparison], found: Sequence[bool]) -> tuple[OneSided, ...]:
    """A function that is inlined several times is one, and so is its comparison."""
    outcomes: dict[tuple[Line, str, tuple[str, ...]], set[bool]] = {}
    for one in comparisons:
        held = outcomes.setdefault((one.at, one.operator, one.constants), set())
        held |= {outcome for mark, outcome in ((one.holds, True), (one.fails, False)) if found[mark]}
    return tuple(OneSided(at, constants) for (at, _, constants), held in outcomes.items() if len(held) == 1)


def _once(loops: Sequence[Loop], found: Sequence[bool]) -> frozenset[Line]:
    """Of several loops in one place the shortest goes one turn at a time; the others are unrolled, and to come to one
    is several turns."""
    places: dict[tuple[Line, str], list[Loop]] = {}
    for loop in loops:
        places.setdefault((loop.at, loop.calls), []).append(loop)
    again = set()
    for (at, _), here in places.items():
        shortest = min(here, key=lambda loop: loop.length)
        if any(found[loop.again] or (loop is not shortest and found[loop.head]) for loop in here):
            again.add(at)
    return frozenset(at for at, _ in places) - again
