# SPDX-License-Identifier: Apache-2.0
"""Sums that a thread keeps in global memory: elements that it adds to again and again in loops."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.read_again import hangs_on, is_long, walks
from warplens_tools.cuda.values.forms import subtract
from warplens_tools.cuda.values.loop_headers import Loop


class MemorySum(msgspec.Struct, frozen=True):
    """An element that is loaded, changed and stored again by a thread that had it before."""

    access: ArrayAccess
    #: The loop whose iterations come to the same elements again.
    around: Loop
    #: Updates of one iteration that reach an element one after the other.
    updates: int = 1


def memory_sums(accesses: Sequence[ArrayAccess]) -> tuple[MemorySum, ...]:
    """Updates of global memory (`a[i] += x`) in loops that come to the same elements again, the deepest first."""
    found = [
        a
        for a in accesses
        if a.space == "global" and a.reads and a.writes and not a.atomic and not a.few and a.loops
    ]
    sums = [s for a in found if (s := _in_rounds(a) or _by_neighbours(a, found)) is not None]
    return tuple(sorted(sums, key=lambda s: (-len(s.access.loops), s.access.span)))


def _in_rounds(access: ArrayAccess) -> MemorySum | None:
    """An update in a loop that goes through elements, within a loop that these do not hang on."""
    for outer in access.loops[:-1]:
        if walks(access, access.loops[-1]) and is_long(outer) and not hangs_on(access, outer):
            return MemorySum(access, outer)
    return None


def _by_neighbours(access: ArrayAccess, updates: Sequence[ArrayAccess]) -> MemorySum | None:
    """Several updates of an iteration, each of which the next iteration's reach again: `a[j - 1] += x; a[j] += y;`."""
    loop = access.loops[-1]
    step = access.index.growth(loop.counter) if access.index is not None and loop.counter else None
    if access.index is None or step is None or not step.terms or not is_long(loop):
        return None
    alike = [a for a in updates if a.name == access.name and a.index is not None and a.loops == access.loops]
    reached = [a for a in alike if a.index is not None and subtract(a.index, access.index) == step]
    return MemorySum(access, loop, len(alike)) if reached else None
