# SPDX-License-Identifier: Apache-2.0
"""In what order a kernel that waits for others looks at their flags and at what these stand for, by PTX.

Between a flag that is seen and the number behind it, and between a number that is written and its flag, a fence has to
stand, or one may be seen without the other (PTX ISA, memory consistency model). Most runs show nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from warplens_tools.toolchain.ptx_ends import LOOKS, loops_in
from warplens_tools.toolchain.ptx_flow import Flow, by_kernel

_FENCE = re.compile(
    r"(?:membar\.(?:gl|sys)|fence(?:\.\w+)*\.(?:gpu|sys)|barrier\.cluster)\b|\w+(?:\.\w+)*\.acq_rel\b"
)
_ACQUIRES, _RELEASES = (
    re.compile(r"ld(?:\.\w+)*\.acquire\b"),
    re.compile(r"(?:st|red|atom)(?:\.\w+)*\.release\b"),
)
_ACCESS = re.compile(r"^\s*(?:@!?%p\d+\s+)?(\w[\w.:]*)\s+[^\[;]*\[(%rd\d+)?[^;]*;")
NAME = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)")
#: Instructions on global memory, or on what may be, and the register of their place.
GLOBAL = re.compile(r"(ld|st|atom|red)(?:\.(?!shared|local|param|const)\w+(?:::\w+)*)*\Z")
PLACE = re.compile(r"\[(%rd\d+)")
#: What happens in a block, in order: a flag is seen or written, a number is, or a fence stands.
_Event = str


class Order(msgspec.Struct, frozen=True):
    """Of one kernel: whether numbers are read that no fence keeps behind the flag, and flags written that none keeps
    behind the number."""

    waits: bool = False
    reads_early: bool = False
    tells_early: bool = False


def order_in(ptx: str) -> dict[str, Order]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _of)


def unordered(baseline: Mapping[str, Order], candidate: Mapping[str, Order]) -> str:
    """What a candidate leaves to chance in waiting, or in telling, that the baseline does not; "" for nothing."""
    for name, new in candidate.items():
        known = baseline.get(name, Order())
        if known.waits and new.reads_early and not known.reads_early:
            return "the edit has no fence between a flag that it waits for and what it then reads"
        if known.waits and new.tells_early and not known.tells_early:
            return "the edit has no fence between what it writes and the flag that tells others so"
    return ""


def _of(flow: Flow) -> Order:
    waiting = [n for loop in loops_in(flow.body) if loop.open_ended for n in loop.blocks]
    flags = {
        base
        for number in waiting
        for name, place in _accesses(flow.code[number])
        if LOOKS.match(name)
        for base in flow.bases(place)
    }
    if not flags:
        return Order()
    shared = _bases(flow, "ld.") & _bases(flow, "st.") - flags
    events = [[*_events(flow, block, flags, shared)] for block in flow.code]
    return Order(
        True,
        meets(events, flow.after, "seen", "read", "acquired"),
        meets(events, flow.after, "written", "told", "released"),
    )


def _accesses(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        found = _ACCESS.match(line)
        if found is not None and found[2] and not found[1].startswith(("ld.param", "ld.const")):
            yield found[1], found[2]


def _bases(flow: Flow, what: str) -> set[str]:
    return {
        base
        for block in flow.code
        for name, place in _accesses(block)
        if name.startswith(what)
        for base in flow.bases(place)
    }


def _events(flow: Flow, lines: Sequence[str], flags: set[str], shared: set[str]) -> Iterator[_Event]:
    for line in lines:
        name = found[1] if (found := NAME.match(line)) is not None else ""
        if _FENCE.match(name):
            yield from ("acquired", "released")
        for of, place in _accesses([line]):
            bases = flow.bases(place)
            if of.startswith("ld."):
                yield from ("read" for _ in bases & shared)
                yield from ("acquired" if _ACQUIRES.match(of) else "seen" for _ in bases & flags)
            elif _RELEASES.match(of):
                yield "released"
            else:
                yield from ("told" for _ in bases & flags)
                yield from ("written" for _ in bases & shared)


def meets(
    events: Sequence[Sequence[_Event]], after: Sequence[Sequence[int]], first: str, then: str, between: str
) -> bool:
    """Whether the one can come before the other with nothing between, by what happens in each block, in order, and by
    the blocks that may follow each."""
    open_at, left = [False] * len(events), list(range(len(events)))
    while left:
        number = left.pop()
        is_open = open_at[number]
        for event in events[number]:
            if event == then and is_open:
                return True
            is_open = event == first or (is_open and event != between)
        for follower in after[number]:
            if is_open and not open_at[follower]:
                open_at[follower] = True
                left.append(follower)
    return False
