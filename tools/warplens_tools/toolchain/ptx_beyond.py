# SPDX-License-Identifier: Apache-2.0
"""What lies next to what is read, by PTX: a kernel that reads it where it has to, and an edit that reads it always.

Behind the last element there is none. Its value may make no difference, so that results are right wherever something
lies there, and the launch ends with a fault where nothing does. What asks where an array ends has its own ways to
say so; what data say of a next element they say where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from warplens_tools.toolchain.ptx_blocks import only_by
from warplens_tools.toolchain.ptx_ends import loops_in
from warplens_tools.toolchain.ptx_flow import Flow, by_kernel, instruction_of

_LOADS = re.compile(r"ld(?:\.\w+(?:::\w+)*)*\.global(?:\.\w+(?:::\w+)*)*\.[busf](8|16|32|64)\Z")
_PLACE = re.compile(r"\[(%rd\d+)(?:\+(-?\d+))?\]")
_GUARD = re.compile(r"@!?(%p\d+)\s")
_HOLDS = re.compile(r"\b(?:min|max)\.[su](?:16|32|64)\b")
_JOINS = re.compile(r"(?:and|or|xor|not|mov|selp)\.pred")


class _Load(NamedTuple):
    block: int
    base: str
    at: int
    bytes: int
    guard: str


class Beyond(msgspec.Struct, frozen=True):
    """Of one kernel, by pointer and bytes of an element: how many conditions on data it reads an element by that it
    does not read the one before it by, and how many conditions in all; the fewest. Not within loops."""

    next_ones: dict[tuple[str, int], tuple[int, int]] = {}
    #: How many numbers it holds within bounds: an edit that does so with more of them needs no conditions.
    held: int = 0


def beyond_in(ptx: str) -> dict[str, Beyond]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _beyond)


def reads_beyond(baseline: Mapping[str, Beyond], candidate: Mapping[str, Beyond]) -> str:
    """Where a candidate always reads the next element, and the baseline if it has to; "" for nowhere."""
    for name, new in candidate.items():
        before = baseline.get(name, Beyond())
        known = before.next_ones if new.held <= before.held else {}
        for (pointer, distance), (more, asks) in new.next_ones.items():
            was = known.get((pointer, distance))
            if was is not None and was[0] > 0 and not more and asks < was[1]:
                where = f"behind parameter {int(pointer) + 1}"
                return (
                    f"the edit reads the element after another one {where} always, the kernel where it has to"
                )
    return ""


def _beyond(flow: Flow) -> Beyond:
    # of what a loop goes through, the next element is its next round's
    rounds = frozenset[int]().union(*(loop.blocks for loop in loops_in(flow.body)))
    loads = [load for load in _loads(flow) if load.block not in rounds]
    pairs = [
        (one, other)
        for one in loads
        for other in loads
        if one.base == other.base and other.at - one.at == one.bytes == other.bytes
    ]
    if not pairs:
        return Beyond()
    asked = _Asked(flow)
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for one, other in pairs:
        before, asks = asked.of(one), asked.of(other)
        for pointer in flow.bases(one.base):
            key = pointer, one.bytes
            here = len(asked.on_data(asks - before)), len(asks)
            found[key] = min(found.get(key, here), here)
    return Beyond(found, len(_HOLDS.findall(flow.body)))


def _loads(flow: Flow) -> Iterator[_Load]:
    for number, block in enumerate(flow.code):
        for line in block:
            one = instruction_of(line)
            loads = _LOADS.match(one[0]) if one is not None else None
            place = _PLACE.search(line)
            if loads is None or place is None:
                continue
            base, at = flow.begins(place[1])
            guard = _GUARD.search(line)
            yield _Load(number, base, at + int(place[2] or 0), int(loads[1]) // 8, guard[1] if guard else "")


class _Asked:
    """By which comparisons each block of a kernel is reached."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._made: dict[str, list[tuple[str, list[str]]]] = {}
        for line in (line for block in flow.code for line in block):
            one = instruction_of(line)
            if one is not None and one[1] and one[1][0].startswith("%p"):
                for register in one[1][0].split("|"):
                    self._made.setdefault(register, []).append((one[0], one[1][1:]))
        self._by_block: list[set[str]] = [set() for _ in flow.code]
        for number, block in enumerate(flow.code):
            guard = _GUARD.search(block[-1]) if block else None
            if guard is None:
                continue
            for target in flow.after[number]:
                for ruled in only_by(flow.after, number, target):
                    self._by_block[ruled] |= self._behind(guard[1])

    def of(self, load: _Load) -> set[str]:
        """The comparisons that have to come out one way for a load, by the registers that hold them."""
        return self._by_block[load.block] | (self._behind(load.guard) if load.guard else set())

    def on_data(self, predicates: set[str]) -> set[str]:
        """Those of some comparisons that look at what was loaded."""
        return {one for one in predicates if self._is_on_data(one)}

    def _is_on_data(self, predicate: str) -> bool:
        operands = {o for _, given in self._made.get(predicate, ()) for o in given if o.startswith("%")}
        behind = (step for r in self._flow.closure(operands) for step in self._flow.steps.get(r, ()))
        return any(step.place for step in behind)

    def _behind(self, predicate: str) -> set[str]:
        found, left, seen = set[str](), [predicate], {predicate}
        while left:
            one = left.pop()
            for name, operands in self._made.get(one, ()):
                if not _JOINS.match(name):
                    found.add(one)
                    continue
                more = {o.lstrip("!") for o in operands if o.lstrip("!").startswith("%p")} - seen
                seen |= more
                left += more
        return found
