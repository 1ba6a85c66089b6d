# SPDX-License-Identifier: Apache-2.0
"""Places that blocks draw, by PTX: a number that an atomic operation gives out is in the order in which blocks begin.

A block that waits for others with smaller numbers may wait for ever where these are the blocks' own: nothing promises
that blocks begin in the order of their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from warplens_tools.toolchain.ptx_ends import Ends
from warplens_tools.toolchain.ptx_flow import Flow, Step, kernels_of
from warplens_tools.toolchain.symbols import unit_free_name

_SHARED_STORE = re.compile(r"\bst(?:\.\w+)*\.shared(?:\.\w+)*\s+\[[^\]]+\]\s*,\s*([^;]+);")
_REGISTER = re.compile(r"%(?:rd|r)\d+")


def drawn_in(ptx: str) -> frozenset[str]:
    """The kernels whose global addresses rest on what an atomic operation on global memory has returned, through shared
    memory too, by the names that they have whatever the unit."""
    return frozenset(unit_free_name(mangled) for mangled, flow in kernels_of(ptx) if _draws(flow))


def undrawn(
    drawn: frozenset[str], ends: Mapping[str, Ends], now: frozenset[str], now_ends: Mapping[str, Ends]
) -> str:
    """Why an edit's blocks may wait for ones that never begin, by what draws places and what waits in the baseline's
    kernels and the edit's; "" if nothing is known to say so."""
    for name in sorted(drawn - now):
        if ends.get(name, Ends()).waits and now_ends.get(name, Ends()).waits:
            why = "the edit waits for other blocks without the places that the kernel's blocks draw"
            return f"{why}: whether those that it waits for have begun is not promised"
    return ""


def _draws(flow: Flow) -> bool:
    reached = flow.closure({place for _, place in flow.accessed})
    if _returned(flow, reached):
        return True
    if not any(step.name.startswith("ld.") and ".shared" in step.name for step in _steps(flow, reached)):
        return False
    stored = {r for operand in _SHARED_STORE.findall(flow.body) for r in _REGISTER.findall(operand)}
    return _returned(flow, flow.closure(stored))


def _returned(flow: Flow, registers: Iterable[str]) -> bool:
    return any(
        step.name.startswith("atom") and ".shared" not in step.name for step in _steps(flow, registers)
    )


def _steps(flow: Flow, registers: Iterable[str]) -> Iterator[Step]:
    return (step for register in registers for step in flow.steps.get(register, ()))
