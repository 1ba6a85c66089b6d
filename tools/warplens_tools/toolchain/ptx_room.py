# SPDX-License-Identifier: Apache-2.0
"""Lists with room for so many, by PTX: where threads draw places by an atomic operation, which number is asked whether
there is room for it.

Each place has room or has none. A warp, or a block, that draws several at once and asks for the last one leaves out
those that had room; if it asks for the first, it writes where there is none. Where a list never fills, neither shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel, instruction_of

_DRAWS = re.compile(r"atom(?:\.\w+)*\.(?:add|inc)\.")
#: What leads from a place that was drawn to where something is stored.
_PARTS = re.compile(r"(?:mov|cvt|cvta|add|sub|shl|mul\.wide|mad|mul\.lo|or\.b|selp|shfl)")
_ASKS = re.compile(r"(?:setp|min|max)\.")


class Room(msgspec.Struct, frozen=True):
    """Of one kernel, the pointers behind which something is stored where a place was drawn, by number: those where each
    place is asked for, by a number that the kernel is given, and those where none is."""

    asked: frozenset[str] = frozenset()
    unasked: frozenset[str] = frozenset()


def room_in(ptx: str) -> dict[str, Room]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _room)


def without_room(baseline: Mapping[str, Room], candidate: Mapping[str, Room]) -> str:
    """Of which places a candidate does not ask each whether there is room, and the baseline does; "" for none."""
    for name, new in candidate.items():
        known = baseline.get(name, Room())
        if lost := known.asked & new.unasked - known.unasked:
            where = f"behind parameter {int(min(lost)) + 1}"
            return f"the kernel asks of each place that it draws {where} whether there is room, the edit does not"
    return ""


def _room(flow: Flow) -> Room:
    drawn = {r for r, steps in flow.steps.items() if any(_DRAWS.match(step.name) for step in steps)}
    if not drawn:
        return Room()
    code = [one for block in flow.code for line in block if (one := instruction_of(line)) is not None]
    compared = [tuple(operands[1:3]) for name, operands in code if _ASKS.match(name)]
    asked, unasked = set[str](), set[str]()
    for name, place in flow.accessed:
        if not name.startswith("st.") or drawn.isdisjoint(flow.closure({place})):
            continue
        (asked if _is_asked(flow, place, drawn, compared) else unasked).update(flow.bases(place))
    return Room(frozenset(asked), frozenset(unasked))


def _is_asked(flow: Flow, place: str, drawn: set[str], compared: list[tuple[str, ...]]) -> bool:
    """Whether a place is less than what a number by value leads to, or what sets it apart from the first one that was
    drawn with it than what is left from there."""
    parts = _parts(flow, place)
    single = {one for one in parts if drawn.isdisjoint(flow.closure({one}))}
    added = _added_to(flow, parts, single)
    places = {one for one in parts - single if not added or not added.isdisjoint(_parts(flow, one))}
    for pair in (pair for pair in compared if len(pair) == 2):
        for one, other in (pair, pair[::-1]):
            given = any(leaf.isdigit() for leaf in flow.leaves.get(other, ()))
            left = one in single and not drawn.isdisjoint(flow.closure({other}))
            if given and (one in places or left):
                return True
    return False


def _added_to(flow: Flow, parts: set[str], single: set[str]) -> set[str]:
    """Which parts are places of one among several that were drawn at once: a run-time number is added to the first."""
    return {
        register
        for register in parts - single
        for step in flow.steps.get(register, ())
        if step.name.startswith(("add", "mad", "sub"))
        and any(source in single and not _is_pointer(flow, source) for source in step.sources)
    }


def _is_pointer(flow: Flow, register: str) -> bool:
    return bool(flow.bases(register))


def _parts(flow: Flow, place: str) -> set[str]:
    seen, left = {place}, [place]
    while left:
        for step in flow.steps.get(left.pop(), ()):
            if _PARTS.match(step.name):
                more = {s for s in step.sources if s.startswith("%")} - seen
                seen |= more
                left += more
    return seen
