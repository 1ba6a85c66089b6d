# SPDX-License-Identifier: Apache-2.0
"""What the integers that a kernel is given by value are to it, by its PTX: words of flags, of which it asks for single
bits, and numbers by which nothing is led, as a modulus or a seed is.

A bit that a program never sets is met by no number near the program's own. What no address and no comparison rests on
may be of any size: nothing is read elsewhere, and no loop takes longer.
"""

from __future__ import annotations

import functools

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, Step, flow_of

#: Of more bits than that the first are taken.
_MOST = 12
#: The upper half of a 64-bit number, which is asked for whether a division may be one of 32 bits.
_UPPER = "#-4294967296"


class Modes(msgspec.Struct, frozen=True):
    """Of one kernel: bits that are asked for, each with its parameter; and parameters by which nothing is led."""

    masks: tuple[tuple[int, int], ...] = ()
    loose: tuple[int, ...] = ()


@functools.lru_cache(maxsize=16)
def modes_of(ptx: str, kernel: str) -> Modes:
    """Of a kernel by its mangled name; nothing where the PTX does not have it."""
    flow = flow_of(ptx, kernel)
    if flow is None:
        return Modes()
    masks = sorted({found for steps in flow.steps.values() for step in steps for found in _bits(flow, step)})
    return Modes(tuple(masks[:_MOST]), _loose(flow))


def _bits(flow: Flow, step: Step) -> list[tuple[int, int]]:
    """Each bit of a mask that is laid over one parameter. What is left of a division by two's powers is none."""
    if not step.name.startswith("and.b") or len(step.sources) != 2:
        return []
    number = next((s[1:] for s in step.sources if s.startswith("#") and s[1:].isdigit()), "")
    leaves = next((flow.leaves.get(s, frozenset()) for s in step.sources if s.startswith("%")), frozenset())
    if not number or len(leaves) != 1 or not (leaf := next(iter(leaves))).isdigit():
        return []
    mask = int(number)
    if mask.bit_length() > 32 or (mask > 1 and mask & (mask + 1) == 0):
        return []
    return [(int(leaf), 1 << bit) for bit in range(32) if mask >> bit & 1]


def _loose(flow: Flow) -> tuple[int, ...]:
    halves = {
        register
        for register, steps in flow.steps.items()
        if all(step.name.startswith("and.b64") and _UPPER in step.sources for step in steps)
    }
    led = flow.closure(flow.leading - halves)
    held = [
        (register, step.sources[0])
        for register, steps in flow.steps.items()
        for step in steps
        if step.name.startswith("ld.param") and step.sources[0].isdigit()
    ]
    leads = {name for register, name in held if register in led}
    return tuple(
        sorted({int(name) for register, name in held if register.startswith("%r")} - {*map(int, leads)})
    )
