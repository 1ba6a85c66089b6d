# SPDX-License-Identifier: Apache-2.0
"""Bytes of a program's memory that a kernel never reads, and an edit goes by, by PTX: what pads structures.

What an edit keeps there from one launch to the next is compared nowhere: a structure is compared member by member. Told
are pointers behind which both versions read and write, and bytes between two elements' that the edit alone looks at;
to copy them with the rest is no look.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel

_LOAD = re.compile(
    r"\bld(?:\.\w+)*\.global(?:\.\w+)*\.[busf](8|16|32|64)\s+([^;\[]*),\s*\[(%rd\d+)(?:\+(-?\d+))?\]\s*;"
)
_REGISTER = re.compile(r"%\w+")
_ASKS = re.compile(r"\bsetp(?:\.\w+)*\s+[^,;]*,([^;]*);")
#: What hands a number on as it is.
_HANDS_ON = ("mov", "selp", "cvt.u", "cvt.s")


class Gaps(msgspec.Struct, frozen=True):
    """Of one kernel, for each pointer among its parameters by number behind which it both reads and writes."""

    #: Bytes from one element to the next; 0 where they are not known, or not always as many.
    strides: dict[str, int] = {}
    #: Bytes that are read, each within its element, and those of them that it goes by.
    read: dict[str, frozenset[int]] = {}
    used: dict[str, frozenset[int]] = {}


class Load(NamedTuple):
    """One load from global memory behind a pointer among the parameters, by number."""

    base: str
    stride: int
    #: The byte behind the element's beginning, and the register of each number.
    at: int
    width: int
    registers: tuple[str, ...]


def gaps_in(ptx: str) -> dict[str, Gaps]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _of)


def in_gaps(baseline: Mapping[str, Gaps], candidate: Mapping[str, Gaps]) -> str:
    """Which bytes a candidate goes by that the baseline never reads; "" if none are known."""
    for name, new in candidate.items():
        known = baseline.get(name, Gaps())
        for base, stride in sorted(known.strides.items()):
            if not stride or new.strides.get(base) != stride:
                continue
            if new.used[base] - known.read[base]:
                return f"the edit goes by bytes behind parameter {int(base) + 1} that the kernel never reads"
    return ""


def _of(flow: Flow) -> Gaps:
    written = {base for name, place in flow.accessed if name.startswith("st") for base in flow.bases(place)}
    found: dict[str, list[Load]] = {}
    for load in loads_of(flow):
        if load.base in written:
            found.setdefault(load.base, []).append(load)
    if not found:
        return Gaps()
    strides = {base: _common(loads) for base, loads in found.items()}
    used = _used(flow)
    return Gaps(
        strides,
        {base: _bytes(loads, strides[base]) for base, loads in found.items()},
        {base: _bytes([*_gone_by(used, loads)], strides[base]) for base, loads in found.items()},
    )


def loads_of(flow: Flow) -> Iterator[Load]:
    """What a kernel loads from global memory."""
    for bits, registers, place, behind in _LOAD.findall(flow.body):
        root, at = flow.begins(place)
        for base in flow.bases(place):
            numbers = tuple(_REGISTER.findall(registers))
            yield Load(base, _stride(flow, root), at + int(behind or 0), int(bits) // 8, numbers)


def _stride(flow: Flow, root: str) -> int:
    """What the elements' number is multiplied by; 0 where that is not plain to see."""
    steps = flow.steps.get(root, ())
    added = [source for step in steps if step.name.startswith("add.s64") for source in step.sources]
    made = [step for source in added for step in flow.steps.get(source, ())]
    found = {step.number for step in made if step.name.startswith(("mul.wide", "mul.lo.s64", "shl.b64"))}
    return found.pop() if len(steps) == 1 and len(found) == 1 else 0


def _common(loads: list[Load]) -> int:
    strides = {load.stride for load in loads}
    return strides.pop() if len(strides) == 1 else 0


def _bytes(loads: list[Load], stride: int) -> frozenset[int]:
    """The bytes within an element."""
    if not stride:
        return frozenset()
    return frozenset(
        (load.at + k) % stride for load in loads for k in range(load.width * len(load.registers))
    )


def _gone_by(used: set[str], loads: list[Load]) -> Iterator[Load]:
    """Each number by itself that more is done with than to hand it on."""
    for load in loads:
        for number, register in enumerate(load.registers):
            if register in used:
                yield load._replace(at=load.at + number * load.width, registers=(register,))


def _used(flow: Flow) -> set[str]:
    """Registers that are asked for, or that something else is made of, and those that are handed on to them."""
    used = {one for found in _ASKS.findall(flow.body) for one in _REGISTER.findall(found)}
    handed: dict[str, set[str]] = {}
    for to, steps in flow.steps.items():
        for step in steps:
            if step.name.startswith(_HANDS_ON):
                handed.setdefault(to, set()).update(step.sources)
            else:
                used.update(step.sources)
    left = list(used)
    while left:
        more = handed.get(left.pop(), set()) - used
        used |= more
        left += more
    return used
