# SPDX-License-Identifier: Apache-2.0
"""Sums that are carried in a lower precision than the kernel's own, by its PTX.

A kernel that adds floats up in double, or bfloat16 in float, does so for terms that cancel or that are many. On inputs
that do neither a lower precision gives the same results but for what moving the inputs by their own rounding changes.
One addition alone is no sum: rounded once, it is what a higher precision rounds to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from warplens_tools.toolchain.ptx_flow import of_kernels

#: Mantissas' order.
_ORDER = {"f16": 0, "bf16": 0, "f32": 1, "f64": 2}
_SAID = {"f16": "half", "bf16": "bfloat16", "f32": "float", "f64": "double"}
_ADDS = re.compile(
    r"\b(add|sub|fma)(?:\.(?:rn|rz|rm|rp|ftz|sat|relu))*\.(bf16|f16|f32|f64)(?:x2)?\s+(%\w+),([^;]*);"
)
_MOVES = re.compile(r"\b(?:mov|selp)\.\w+\s+(%\w+),([^;]*);")
_REGISTER = re.compile(r"%\w+")


def sums_in(ptx: str) -> dict[str, frozenset[str]]:
    """In what each kernel of a unit carries sums of three terms and more, by the name that it has whatever the unit."""
    return of_kernels(ptx, _sums)


def coarser(baseline: Mapping[str, frozenset[str]], candidate: Mapping[str, frozenset[str]]) -> str:
    """What a candidate's unit adds up in a lower precision than the baseline's does at all; "" if nothing."""
    for name, new in candidate.items():
        known = baseline.get(name, frozenset())
        least = min((_ORDER[kind] for kind in known), default=0)
        for kind in sorted(new):
            if _ORDER[kind] < least:
                (was,) = {_SAID[k] for k in known if _ORDER[k] == least}
                return f"the edit adds up in {_SAID[kind]} what the kernel adds up in {was}"
    return ""


def _sums(body: str) -> frozenset[str]:
    made: dict[str, set[str]] = {}
    additions = [(found[2], found[3], _addends(found[1], found[4])) for found in _ADDS.finditer(body)]
    for kind, register, _ in additions:
        made.setdefault(register, set()).add(kind)
    moves = [(found[1], _REGISTER.findall(found[2])) for found in _MOVES.finditer(body)]
    changed = True
    while changed:
        changed = False
        for register, sources in moves:
            more = set().union(*(made.get(source, set()) for source in sources))
            if not more <= made.setdefault(register, set()):
                made[register] |= more
                changed = True
    return frozenset(
        kind for kind, _, addends in additions if any(kind in made.get(one, ()) for one in addends)
    )


def _addends(operation: str, operands: str) -> list[str]:
    """The registers that are added to: not those that are multiplied."""
    parts = operands.split(",")
    return [one for part in (parts[2:] if operation == "fma" else parts) for one in _REGISTER.findall(part)]
