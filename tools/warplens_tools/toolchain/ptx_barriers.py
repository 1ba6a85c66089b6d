# SPDX-License-Identifier: Apache-2.0
"""Barriers between what threads write to global memory and what others of their block or warp read there, by PTX.

Lanes that happen to run in step show nothing without one; nor does racecheck, which watches shared memory alone. What
goes from lane to lane in registers needs none, nor what each thread reads where it has written itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from warplens_tools.toolchain.ptx_ends import loops_in
from warplens_tools.toolchain.ptx_flow import Flow, by_kernel
from warplens_tools.toolchain.ptx_order import GLOBAL, NAME, PLACE, meets

_REGISTER = re.compile(r"%\w+")
_LOADED = re.compile(r"\bld\.global(?:\.\w+)*\s+([^;\[]*)\[(%rd\d+)")
_BARRIER = re.compile(r"(?:bar|barrier|membar|fence)\b")


class Barriers(msgspec.Struct, frozen=True):
    """Of one kernel, pointers among its parameters by number, behind which it reads elsewhere than it writes."""

    #: In an outermost loop, with a barrier in it and without.
    ordered: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()
    #: Where something is read after something was written, and where no barrier is between.
    follows: frozenset[str] = frozenset()
    meets: frozenset[str] = frozenset()
    #: The same of what is copied from behind one pointer to behind another: both, of what is read there afterwards.
    copies: frozenset[tuple[str, str]] = frozenset()
    copies_meet: frozenset[tuple[str, str]] = frozenset()


def barriers_in(ptx: str) -> dict[str, Barriers]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _of)


def without_barriers(baseline: Mapping[str, Barriers], candidate: Mapping[str, Barriers]) -> str:
    """What a candidate's threads read of others with no barrier where the baseline's have one; "" if nothing is known
    to be so."""
    for name, new in candidate.items():
        known = baseline.get(name, Barriers())
        in_loops = known.ordered & new.bare - known.bare - new.ordered
        copied = known.copies & new.copies_meet - known.copies_meet
        lost = in_loops | (known.follows & new.meets - known.meets) | {base for base, _ in copied}
        if lost:
            where = f"behind parameter {int(min(lost, key=int)) + 1}"
            return f"the edit has no barrier between what threads write {where} and what they then read there"
    return ""


def _of(flow: Flow) -> Barriers:
    floats = _float_origins(flow)
    events = [[*_events(flow, block, floats)] for block in flow.code]
    exchanged = _exchanged(events)
    if not exchanged:
        return Barriers()
    ordered, bare = set[str](), set[str]()
    for inside in _outermost(flow.body):
        within = [event for number in inside for event in events[number]]
        both = exchanged & _bases(within, "st") & _bases(within, "ld")
        (ordered if any(what == "bar" for what, *_ in within) else bare).update(both)
    follows = {base for base in exchanged if _reaches(events, flow.after, base, barriers=False)}
    return Barriers(
        frozenset(ordered),
        frozenset(bare),
        frozenset(follows),
        frozenset(base for base in follows if _reaches(events, flow.after, base, barriers=True)),
        *_copies(events, flow.after, exchanged),
    )


#: A store, a load or a barrier: what it is, the pointer, the register of the place, and where what is stored is from.
_Event = tuple[str, str, str, frozenset[str]]
_NOWHERE: frozenset[str] = frozenset()


def _events(flow: Flow, lines: Sequence[str], floats: Mapping[str, frozenset[str]]) -> Iterator[_Event]:
    for line in lines:
        name = found[1] if (found := NAME.match(line)) is not None else ""
        if _BARRIER.match(name):
            yield ("bar", "", "", _NOWHERE)
            continue
        access, place = GLOBAL.match(name), PLACE.search(line)
        if access is not None and access[1] in ("ld", "st") and place is not None:
            of = _stored(flow, line, floats) if access[1] == "st" else _NOWHERE
            yield from ((access[1], base, place[1], of) for base in flow.bases(place[1]))


def _stored(flow: Flow, line: str, floats: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The pointers behind which what a store stores was loaded."""
    stored = _REGISTER.findall(line[line.rindex("]") :])
    return frozenset[str]().union(
        *((floats if one.startswith("%f") else flow.origins).get(one, _NOWHERE) for one in stored)
    )


def _float_origins(flow: Flow) -> dict[str, frozenset[str]]:
    """The pointers behind which each float was loaded that is handed on as it was."""
    found: dict[str, frozenset[str]] = {}
    for loaded, place in _LOADED.findall(flow.body):
        for register in _REGISTER.findall(loaded):
            found[register] = found.get(register, _NOWHERE) | flow.bases(place)
    return found


def _copies(
    events: Sequence[Sequence[_Event]], after: Sequence[Sequence[int]], exchanged: set[str]
) -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
    """What is read after it was copied from behind another pointer, and where no barrier is between."""
    copied = {
        (base, of)
        for block in events
        for what, base, _, origins in block
        if what == "st" and base in exchanged
        for of in origins - exchanged
    }
    found = [
        frozenset(
            (base, of)
            for base, of in copied
            if meets([[*_of_copies(block, base, of)] for block in events], after, "st", "ld", between)
        )
        for between in ("", "bar")
    ]
    return found[0], found[1]


def _of_copies(block: Sequence[_Event], base: str, of: str) -> Iterator[str]:
    return (
        what for what, behind, _, origins in block if behind in (base, "") and (what != "st" or of in origins)
    )


def _exchanged(events: Sequence[Sequence[_Event]]) -> set[str]:
    """The pointers behind which something is read where the same code does not write."""
    every = [event for block in events for event in block]
    loads = {(base, place) for what, base, place, _ in every if what == "ld"}
    stores = {(base, place) for what, base, place, _ in every if what == "st"}
    return {base for base, _ in loads - stores} & {base for base, _ in stores - loads}


def _bases(events: Sequence[_Event], which: str) -> set[str]:
    return {base for what, base, *_ in events if what == which}


def _outermost(body: str) -> list[frozenset[int]]:
    found = [frozenset(loop.blocks) for loop in loops_in(body)]
    return [one for one in found if not any(one < other for other in found)]


def _reaches(
    events: Sequence[Sequence[_Event]], after: Sequence[Sequence[int]], base: str, *, barriers: bool
) -> bool:
    """Whether a load behind a pointer can come after a store there, with no barrier between if `barriers` end it."""
    here = [[what for what, behind, *_ in block if behind in (base, "")] for block in events]
    return meets(here, after, "st", "ld", "bar" if barriers else "")
