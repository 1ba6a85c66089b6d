# SPDX-License-Identifier: Apache-2.0
"""Links that a kernel follows, by PTX: trees, lists and walks as arrays of indices, where each place says what is next.

How a run's own links lie (the first child right behind its node, leaves in a row, parents before children) is for its
data to say. An edit that works out the next place, where the kernel has loaded it, goes by how they lie in this run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel, components, instruction_of
from warplens_tools.toolchain.ptx_reached import Reach, reached

_REGISTER = re.compile(r"%(?:rd|rs|r)\d+")
_BRACKETS = re.compile(r"\[[^\]]*\]")
_SETS_NOTHING = ("st.", "red.", "bra", "ret", "bar", "setp", "call", "prefetch")
#: What leaves a number as it is, or chooses one of several.
_CHOOSES = ("mov.", "cvt.", "cvta.", "selp.", "min.", "max.", "ld.")
#: Where what was loaded may be kept, to be followed there.
_KEPT = ("ld.shared", "ld.local")
#: Stands for all that a thread's own arrays hold.
_OWN = "own"


class Links(msgspec.Struct, frozen=True):
    """Of one kernel, by number, the pointers behind which a loop goes from place to place by what it loads there: all,
    and those where it may go on by what it works out alone; and the pointers behind which lies where it goes at all,
    which for rounds that are written out one by one is as good; whether it may be kept in other memory first."""

    followed: frozenset[str] = frozenset()
    stepped: frozenset[str] = frozenset()
    led: frozenset[str] = frozenset()
    keeps: bool = False


def links_in(ptx: str) -> dict[str, Links]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _of)


def unfollowed(baseline: Mapping[str, Links], candidate: Mapping[str, Links]) -> str:
    """Where an edit works out what is next and the baseline loads it; "" for nowhere."""
    for name, new in candidate.items():
        known = baseline.get(name, Links())
        loaded = known.followed - known.stepped
        if lost := loaded & new.stepped:
            where = f"parameter {int(min(lost)) + 1}"
            return f"the edit works out which place is next, where the kernel loads that behind {where} alone"
        if lost := loaded - new.led if not new.keeps else frozenset():
            where = f"parameter {int(min(lost)) + 1}"
            return f"the edit follows no links, where the kernel goes by those that it loads behind {where}"
    return ""


class _Made(NamedTuple):
    """One instruction that makes a register, by what it uses, and by the place of what it loads; "" for none."""

    register: str
    name: str
    uses: tuple[str, ...]
    place: str
    #: What the register held before stays, or may.
    adds: bool


def _of(flow: Flow) -> Links:
    followed, stepped = set[str](), set[str]()
    for inside in _rounds(flow):
        made, come_from = _definitions(flow, inside)
        loads = [
            {source for use in (*one.uses, one.place) for source in come_from[n].get(use, ())}
            for n, one in enumerate(made)
        ]
        alone = [
            {source for use in one.uses for source in come_from[n].get(use, ())} for n, one in enumerate(made)
        ]
        for part in _loops(loads, range(len(made))):
            led = [n for n in part if not part.isdisjoint(come_from[n].get(made[n].place, ()))]
            bases = {base for n in led for base in flow.bases(made[n].place)}
            followed |= bases
            goes_on = any(
                not made[n].name.startswith(_CHOOSES)
                for loop in _loops(alone, part)
                for n in loop
                if made[n].register != _OWN
            )
            stepped |= bases if goes_on else set()
    return Links(frozenset(followed), frozenset(stepped), _led(flow), _keeps(flow))


def _rounds(flow: Flow) -> Iterator[set[str]]:
    """The registers that may go round with a load among them, whatever the order of instructions says."""
    made_of: dict[str, list[str]] = {_OWN: []}
    for lines in flow.code:
        for one in _read(lines):
            made_of.setdefault(one.register, []).extend(use for use in (*one.uses, one.place) if use)
    for registers in components(made_of):
        inside = set(registers)
        if any(step.place in inside for register in registers for step in flow.steps.get(register, ())):
            yield inside


def _read(lines: Iterable[str]) -> Iterator[_Made]:
    for line in lines:
        found = instruction_of(line)
        if found is None:
            continue
        name, parts = found
        guarded = line.lstrip().startswith("@")
        used = tuple(r for part in parts[1:] for r in _REGISTER.findall(_BRACKETS.sub("", part)))
        if name.startswith("st.local"):
            yield _Made(_OWN, name, used, "", adds=True)
        elif parts and not name.startswith(_SETS_NOTHING):
            place = _REGISTER.search(" ".join(parts[1:])) if name.startswith(("ld.global", "ldu.")) else None
            own = (_OWN,) if name.startswith("ld.local") else ()
            for register in _REGISTER.findall(parts[0]):
                yield _Made(
                    register, name, (*used, *own), place[0] if place is not None else "", adds=guarded
                )


def _definitions(flow: Flow, inside: set[str]) -> tuple[list[_Made], list[Reach]]:
    """What makes these registers, in the order of the text, and for each where what it uses may come from."""
    blocks = [[one for one in _read(lines) if one.register in inside] for lines in flow.code]
    making = [[(one.register, one.adds) for one in block] for block in blocks]
    return [one for block in blocks for one in block], reached(making, flow.after)


def _loops(sources: Sequence[set[int]], among: Iterable[int]) -> Iterator[set[int]]:
    """Which of these come from one another."""
    inside = set(among)
    graph = {str(n): [str(source) for source in sources[n] & inside] for n in inside}
    for part in components(graph):
        numbers = set(map(int, part))
        if len(numbers) > 1 or not numbers.isdisjoint(sources[min(numbers)]):
            yield numbers


def _led(flow: Flow) -> frozenset[str]:
    """The pointers behind which numbers are loaded that places in memory are worked out from."""
    led = flow.closure({place for _, place in flow.accessed})
    steps = (step for register in led for step in flow.steps.get(register, ()))
    return frozenset(base for step in steps if step.place for base in flow.bases(step.place))


def _keeps(flow: Flow) -> bool:
    return any(step.name.startswith(_KEPT) for steps in flow.steps.values() for step in steps)
