# SPDX-License-Identifier: Apache-2.0
"""Lists that the threads of a block keep in shared memory, by PTX: how many find a place there follows data.

A place is drawn from a counter of the block's, or counted by each warp or thread for itself. Where loops that go up to
loaded numbers draw places, the list is as long as data have it, and runs over unless somebody asks for room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.toolchain.ptx_ends import Loop, loops_in
from warplens_tools.toolchain.ptx_flow import Flow, by_kernel, instruction_of

_DRAWS = re.compile(r"atom(?:\.\w+)*\.shared(?:\.\w+(?:::\w+)*)*\.(?:add|inc)\.")
_STORES = re.compile(r"st(?:\.\w+)*\.shared\b")
_ASKS = ("setp", "min.", "rem.", "and.b")
_WORKS_OUT = ("mov.", "cvt.", "add.", "sub.", "mul.", "mad.", "shl.", "shfl.", "selp.", "or.")
_REGISTER = re.compile(r"%(?:rd|rs|r)\d+")


def lists_in(ptx: str) -> frozenset[str]:
    """The kernels that keep lists of data's own length in shared memory and never ask for room, by the names that they
    have whatever the unit."""
    return frozenset(name for name, keeps in by_kernel(ptx, _keeps_list).items() if keeps)


def runs_over(baseline: frozenset[str], candidate: frozenset[str]) -> str:
    """Why a list of a candidate's may run over; "" if nothing says so."""
    if candidate - baseline:
        return "the edit keeps a list of data's own length in shared memory, and never asks whether there is room"
    return ""


def _keeps_list(flow: Flow) -> bool:
    lines = [(number, line) for number, block in enumerate(flow.code) for line in block]
    code = [(number, *found) for number, line in lines if (found := instruction_of(line)) is not None]
    drawn = {parts[0]: number for number, name, parts in code if _DRAWS.match(name) and parts}
    loops = [loop for loop in loops_in(flow.body) if drawn or loop.grows]
    loops = [loop for loop in loops if _ends_by_data(flow, loop)]
    if any(loop.grows for loop in loops):
        return True
    for register, number in drawn.items():
        if any(number in loop.blocks for loop in loops):
            led = _handed_on(code, register)
            places = {
                r for _, name, parts in code if _STORES.match(name) for r in _REGISTER.findall(parts[0])
            }
            asked = (
                r
                for _, name, parts in code
                if name.startswith(_ASKS)
                for p in parts[1:]
                for r in _REGISTER.findall(p)
            )
            if led & places and led.isdisjoint(asked):
                return True
    return False


def _handed_on(code: list[tuple[int, str, list[str]]], register: str) -> set[str]:
    """What is worked out from a place."""
    found, grown = {register}, True
    while grown:
        grown = False
        for _, name, parts in code:
            if name.startswith(_WORKS_OUT) and not found.isdisjoint(
                r for p in parts[1:] for r in _REGISTER.findall(p)
            ):
                more = set(_REGISTER.findall(parts[0])) - found
                found |= more
                grown = grown or bool(more)
    return found


def _ends_by_data(flow: Flow, loop: Loop) -> bool:
    """Whether what leaves a loop is compared with something that was loaded."""
    return any(
        step.place
        for side in _sides(flow, loop)
        for one in flow.closure({side})
        for step in flow.steps.get(one, ())
    )


def _sides(flow: Flow, loop: Loop) -> Iterator[str]:
    for number in loop.blocks:
        if loop.blocks.issuperset(flow.after[number]):
            continue
        for line in flow.code[number]:
            found = instruction_of(line)
            if found is not None and found[0].startswith("setp"):
                yield from (r for part in found[1][1:] for r in _REGISTER.findall(part))
