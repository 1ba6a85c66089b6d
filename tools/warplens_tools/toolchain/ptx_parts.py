# SPDX-License-Identifier: Apache-2.0
"""Parts of 64-bit sums that a thread adds up in 32 bits, by PTX: they meet in 64 bits when they may have run over.

Where they are added to a sum of 64 bits round by round, as of what was loaded at once, a part has few terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, Step, by_kernel

_ADDS = re.compile(r"(?:add|sub|mad\.lo|dp4a)\.[su](32|64)")
_WIDENS = re.compile(r"cvt\.[su]64\.[su]32\Z")
#: What goes round in a sum.
_SUMS = re.compile(r"(?:add|sub|mad\.lo|dp4a|mov|selp)\b")
_HANDS_ON = re.compile(r"(?:mov|selp|shfl|redux)\b")


class Parts(msgspec.Struct, frozen=True):
    """Of one kernel: whether a loop adds loaded integers up in 64 bits, and whether one does in 32 what is widened
    then."""

    wide: bool = False
    widened: bool = False


def parts_in(ptx: str) -> dict[str, Parts]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _parts)


def narrower_parts(baseline: Mapping[str, Parts], candidate: Mapping[str, Parts]) -> str:
    """What a candidate adds up in fewer bits than the baseline before it is widened; "" for nothing."""
    for name, new in candidate.items():
        known = baseline.get(name, Parts())
        if known.wide and not known.widened and new.widened:
            return "the edit adds up in 32 bits over a loop, and widens its sums then, what the kernel adds up in 64"
    return ""


def _parts(flow: Flow) -> Parts:
    # places are worked out so, too
    leads = flow.closure(flow.addresses)
    sums: dict[str, set[str]] = {"32": set(), "64": set()}
    for register, width in sums_of(flow):
        if register not in leads:
            sums[width].add(register)
    widened = _widened(flow, _handed_on(flow, sums["32"])) if sums["32"] else False
    return Parts(bool(sums["64"]), widened)


def sums_of(flow: Flow) -> Iterator[tuple[str, str]]:
    """What goes round in a loop and what is loaded is added to, by how many bits it has."""
    others = {
        flow.round[register]
        for register, steps in flow.steps.items()
        for step in steps
        if not _SUMS.match(step.name) and any(flow.round.get(s) == flow.round[register] for s in step.sources)
    }
    for register, steps in flow.steps.items():
        for step in steps if flow.round[register] not in others else ():
            found = _ADDS.match(step.name)
            same = [s for s in step.sources if flow.round.get(s) == flow.round[register]]
            if found and same and any(_rests_on_loads(flow, s) for s in step.sources if s not in same):
                yield register, found[1]


def _rests_on_loads(flow: Flow, source: str) -> bool:
    return source.startswith("%") and any(
        step.place for register in flow.closure({source}) for step in flow.steps.get(register, ())
    )


def _handed_on(flow: Flow, registers: set[str]) -> set[str]:
    # the same sum under another name, before and behind the loop
    found = {one for one, number in flow.round.items() if number in {flow.round[r] for r in registers}}
    while more := {
        r for r, steps in flow.steps.items() if r not in found and any(_hands_on(s, found) for s in steps)
    }:
        found |= more
    return found


def _hands_on(step: Step, found: set[str]) -> bool:
    return _HANDS_ON.match(step.name) is not None and not found.isdisjoint(step.sources)


def _widened(flow: Flow, sums: set[str]) -> bool:
    """Whether such a sum is widened, and not added to another one in each round of a loop."""
    wide = {
        register
        for register, steps in flow.steps.items()
        for step in steps
        if _WIDENS.match(step.name) and not sums.isdisjoint(step.sources) and register not in flow.addresses
    }
    flushed = {
        source
        for register, steps in flow.steps.items()
        for step in steps
        if step.name.startswith("add.")
        and any(flow.round.get(s) == flow.round[register] for s in step.sources)
        for source in step.sources
    }
    return bool(wide - flushed)
