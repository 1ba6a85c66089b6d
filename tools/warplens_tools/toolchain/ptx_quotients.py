# SPDX-License-Identifier: Apache-2.0
"""Whole quotients by a reciprocal, by PTX: `i * (65536 / n + 1) >> 16` for `i / n`.

A reciprocal of so many bits is right for numbers of about half as many, which a run's own may be. The upper half of a
product with one of all bits is right for all (Lemire, Kaser, Kurz 2019).
"""

from __future__ import annotations

import re

from warplens_tools.toolchain.ptx_bits import Bits
from warplens_tools.toolchain.ptx_flow import Flow, kernels_of
from warplens_tools.toolchain.symbols import unit_free_name

_PRODUCT = re.compile(r"(?:mul|mad)\.(?:lo|wide)\.[su](?:32|64)\Z")
_SHIFTS = re.compile(r"(?:shr\.[us]|bfe\.[us])(?:32|64)\Z")
_DIVIDES = re.compile(r"div\.[us](?:32|64)\Z")
_HANDS_ON = re.compile(r"(?:mov|selp|cvt|add|sub)\.")


def reciprocals_in(ptx: str) -> frozenset[str]:
    """The kernels that shift products with quotients of constants, by the names that they have whatever the unit."""
    return frozenset(unit_free_name(mangled) for mangled, flow in kernels_of(ptx) if _by_reciprocals(flow))


def by_reciprocals(baseline: frozenset[str], candidate: frozenset[str]) -> str:
    """Why quotients of a candidate may be wrong, by what its kernels do and the baseline's; "" if nothing says so."""
    if candidate - baseline:
        return "the edit divides by products with a reciprocal of few bits, the kernel does not"
    return ""


def _by_reciprocals(flow: Flow) -> bool:
    bits = Bits(flow)
    reciprocals = {
        register
        for register, steps in flow.steps.items()
        for step in steps
        if _DIVIDES.match(step.name) and (bits.constant(step.sources[0]) or 0) > 1
    }
    if not reciprocals:
        return False
    products = _handed_on(flow, _made(flow, _PRODUCT, _handed_on(flow, reciprocals)))
    return any(
        _SHIFTS.match(step.name) and step.sources[0] in products and bits.constant(step.sources[1])
        for steps in flow.steps.values()
        for step in steps
    )


def _made(flow: Flow, how: re.Pattern[str], of: set[str]) -> set[str]:
    """The registers that instructions make of others, by their first two sources."""
    return {
        register
        for register, steps in flow.steps.items()
        if any(how.match(step.name) and of & set(step.sources[:2]) for step in steps)
    }


def _handed_on(flow: Flow, registers: set[str]) -> set[str]:
    found = set(registers)
    while more := _made(flow, _HANDS_ON, found) - found:
        found |= more
    return found
