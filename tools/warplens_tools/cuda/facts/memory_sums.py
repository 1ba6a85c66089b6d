# SPDX-License-Identifier: Apache-2.0
"""Sums that a thread keeps in memory: elements of global or shared memory that it changes again and again in loops."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.facts.read_again import hangs_on, is_long, walks
from warplens_tools.cuda.values.forms import subtract
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.text import Span

_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_CHANGED = re.compile(
    r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)?(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)


class MemorySum(msgspec.Struct, frozen=True):
    """An element that is loaded, changed and stored again by a thread that had it before."""

    access: ArrayAccess
    #: The loop whose iterations come to the same elements again.
    around: Loop
    #: Updates of one iteration that reach an element one after the other.
    updates: int = 1


def memory_sums(accesses: Sequence[ArrayAccess]) -> tuple[MemorySum, ...]:
    """Updates of memory (`a[i] += x`, `a[i] = f(a[i])`) in loops that come to the same elements again, the deepest
    first."""
    found = [
        a
        for a in accesses
        if a.space in ("global", "shared") and a.writes and not a.atomic and not a.few and a.loops
    ]
    updates = [a for a in found if a.reads]
    pairs = [a for a in found if not a.reads and _is_read_there(a, accesses)]
    sums = [s for a in updates if (s := _in_rounds(a) or _by_neighbours(a, updates)) is not None]
    sums += [s for a in pairs if (s := _in_rounds(a)) is not None]
    stay = (_in_place(a, accesses) for a in (*updates, *pairs))
    known = {s.access.span for s in sums}
    sums += [s for s in stay if s is not None and s.access.span not in known]
    return tuple(sorted(sums, key=lambda s: (-len(s.access.loops), s.access.span)))


def _is_read_there(store: ArrayAccess, accesses: Sequence[ArrayAccess]) -> bool:
    """Whether the element that is stored was loaded in the same iteration, before or in the same statement."""
    return store.index is not None and any(
        a.reads and a.name == store.name and a.index == store.index and a.member == store.member
        and a.loops == store.loops and a.span.line <= store.span.end_line
        for a in accesses
    )  # fmt: skip


def _in_rounds(access: ArrayAccess) -> MemorySum | None:
    """An update in a loop that goes through elements, within a loop that these do not hang on."""
    for outer in access.loops[:-1]:
        if walks(access, access.loops[-1]) and is_long(outer) and not hangs_on(access, outer):
            return MemorySum(access, outer)
    return None


def _in_place(access: ArrayAccess, accesses: Sequence[ArrayAccess]) -> MemorySum | None:
    """An update whose innermost loop leaves the element where it is while it reads the array at other elements: the
    compiler must store each time."""
    loop = access.loops[-1]
    if access.index is None or not is_long(loop) or not loop.counter or hangs_on(access, loop):
        return None
    others = any(
        a.name == access.name and a.reads and a.loops == access.loops and a.index != access.index
        for a in accesses
    )
    return MemorySum(access, loop) if others else None


def _by_neighbours(access: ArrayAccess, updates: Sequence[ArrayAccess]) -> MemorySum | None:
    """Several updates of an iteration, each of which the next iteration's reach again: `a[j - 1] += x; a[j] += y;`."""
    loop = access.loops[-1]
    step = access.index.growth(loop.counter) if access.index is not None and loop.counter else None
    if (
        access.space != "global"
        or access.index is None
        or step is None
        or not step.terms
        or not is_long(loop)
    ):
        return None
    alike = [a for a in updates if a.name == access.name and a.index is not None and a.loops == access.loops]
    reached = [a for a in alike if a.index is not None and subtract(a.index, access.index) == step]
    return MemorySum(access, loop, len(alike)) if reached else None


def stored_sums(accesses: Sequence[ArrayAccess], said: Callable[[Span], str]) -> tuple[MemorySum, ...]:
    """Updates `a[i] += x` of global or shared memory in loops that change none of the names that choose the element,
    but by loops within, whatever the element's index comes to; the deepest first. A compiler that knows that nothing
    else reaches the element keeps it in a register: the stores in the loop have to be seen."""
    found = []
    changed = functools.cache(lambda span: frozenset(a or b for a, b in _CHANGED.findall(said(span))))
    for access in accesses:
        if access.space not in ("global", "shared") or not (access.reads and access.writes):
            continue
        if access.atomic or access.few:
            continue
        loops = [x for n, x in enumerate(access.loops) if is_long(x) and _stays(access, n, changed(x.span))]
        around = loops[0] if loops else None
        if around is not None:
            found.append(MemorySum(access, around))
    return tuple(sorted(found, key=lambda s: (-len(s.access.loops), s.access.span)))


def _stays(access: ArrayAccess, depth: int, changed: frozenset[str]) -> bool:
    """Whether the iterations of the loop at a depth come to the same elements, by the names that the index mentions."""
    own = {word for index in access.indices for word in _WORD.findall(index)}
    within = {x.variable for x in access.loops[depth + 1 :]}
    return access.loops[depth].variable not in own and not own & (changed - within - {access.name})
