# SPDX-License-Identifier: Apache-2.0
"""Loops in which each lane goes through an array from a start that it loads: CSR rows, features of a chosen point."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.values.forms import LOADED, Form
from warplens_tools.text import Span

#: Loads behind one another that are followed: `row = rows[i]`, `first = starts[row]`, `v[first + k]`.
_CHAIN = 3
_LANE = "threadIdx.x"
#: Iterations up to which the compiler unrolls a loop, and may load its elements as vectors.
FEW = 4


def walks_of_lanes(accesses: Sequence[ArrayAccess], said: Callable[[Span], str]) -> list[ArrayAccess]:
    """Reads `v[start + k]` in a loop over `k`, where every lane has loaded a start of its own; the deepest first."""
    own = _loaded_apart(accesses, said)
    found = [a for a in accesses if a.reads and not a.writes and not a.few and _walks(a, own)]
    return sorted(found, key=lambda a: (-len(a.loops), a.span))


def _loaded_apart(accesses: Sequence[ArrayAccess], said: Callable[[Span], str]) -> set[str]:
    """The reads, as written, that bring each lane a value of its own."""
    own: set[str] = set()
    for _ in range(_CHAIN):
        own |= {said(a.span) for a in accesses if a.reads and a.traced is not None and _apart(a.traced, own)}
    return own


def _apart(place: Form, own: Collection[str]) -> bool:
    """Whether neighbouring lanes are at different places: by their number, or by what each of them has loaded."""
    if place.coefficient(_LANE) not in (0, None):
        return True
    return any(s.operation == LOADED and s.name in own for symbols, _ in place.terms for s in symbols)


def _walks(access: ArrayAccess, own: Collection[str]) -> bool:
    loop, place = (access.loops[-1] if access.loops else None), access.traced
    if loop is None or place is None or not loop.counter or (loop.trips is not None and loop.trips <= FEW):
        return False
    lone = [t for t in place.terms if not any(s.operation == LOADED for s in t[0])]
    lanes = Form(tuple(lone)).coefficient(_LANE)
    started = any(s.operation == LOADED and s.name in own for symbols, _ in place.terms for s in symbols)
    return lanes == 0 and started and place.coefficient(loop.counter) == 1
