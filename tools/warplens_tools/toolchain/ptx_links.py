# SPDX-License-Identifier: Apache-2.0
"""Links that a kernel follows, by PTX: trees, lists and walks as arrays of indices, where each place says what is next.

How a run's own links lie (the first child right behind its node, leaves in a row, parents before children) is for its
data to say. An edit that works out the next place, where the kernel has loaded it, goes by how they lie in this run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, Step, by_kernel, components

_OWN_STORE = re.compile(r"\bst\.local(?:\.\w+)*\s+\[[^\]]+\]\s*,\s*([^;]+);")
_REGISTER = re.compile(r"%(?:rd|rs|r)\d+")
#: What leaves a number as it is, or chooses one of several.
_CHOOSES = ("mov.", "cvt.", "cvta.", "selp.", "min.", "max.", "ld.")
#: Where what was loaded may be kept, to be followed there.
_KEPT = ("ld.shared", "ld.local")
_Graph = dict[str, list[str]]


class Links(msgspec.Struct, frozen=True):
    """Of one kernel, by number, the pointers behind which a loop goes from place to place by what it loads there: all,
    and those where it may go on by what it works out alone; and whether it goes by anything that lies in memory, once
    or more often, which for rounds that are written out one by one is the same."""

    followed: frozenset[str] = frozenset()
    stepped: frozenset[str] = frozenset()
    led: bool = False


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
        if loaded and not new.led:
            where = f"parameter {int(min(loaded)) + 1}"
            return f"the edit follows no links, where the kernel goes by those that it loads behind {where}"
    return ""


def _of(flow: Flow) -> Links:
    kept = [r for value in _OWN_STORE.findall(flow.body) for r in _REGISTER.findall(value)]
    # what a thread puts into an array of its own may be what it takes out again
    made_of = {register: _sources(steps, kept) for register, steps in flow.steps.items()}
    worked_out = {register: _sources(steps, kept, loads=False) for register, steps in flow.steps.items()}
    followed, stepped = set[str](), set[str]()
    for registers in components(made_of):
        inside = set(registers)
        places = {s.place for r in registers for s in flow.steps.get(r, ()) if s.place in inside}
        bases = {base for place in places for base in flow.bases(place)}
        followed |= bases
        if bases and _goes_on(flow, _within(worked_out, inside)):
            stepped |= bases
    return Links(frozenset(followed), frozenset(stepped), _is_led(flow))


def _sources(steps: Sequence[Step], kept: Sequence[str], *, loads: bool = True) -> list[str]:
    found = []
    for step in steps:
        found += [source for source in step.sources if source.startswith("%")]
        found += [step.place] if loads and step.place else []
        found += kept if step.name.startswith("ld.local") else []
    return found


def _within(graph: Mapping[str, list[str]], inside: set[str]) -> _Graph:
    return {
        register: [source for source in graph[register] if source in inside]
        for register in inside
        if register in graph
    }


def _goes_on(flow: Flow, graph: _Graph) -> bool:
    """Whether something is worked out from itself without a load, and not only chosen."""
    for registers in components(graph):
        inside = set(registers)
        for register in registers:
            if not inside.isdisjoint(graph.get(register, ())) and any(
                not step.name.startswith(_CHOOSES) and not inside.isdisjoint(step.sources)
                for step in flow.steps.get(register, ())
            ):
                return True
    return False


def _is_led(flow: Flow) -> bool:
    """Whether a place in memory rests on what was loaded there, or anything is kept in other memory than global."""
    if any(step.name.startswith(_KEPT) for steps in flow.steps.values() for step in steps):
        return True
    return any(
        step.place and flow.bases(step.place) & flow.bases(place)
        for _, place in flow.loaded
        for register in flow.closure({place})
        for step in flow.steps.get(register, ())
    )
