# SPDX-License-Identifier: Apache-2.0
"""Elements that one thread reads in a loop and reads again later: in the next iteration of a loop around it, or in a
second loop over the same elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.syntax.around import exclude_each_other
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.forms import Form, Symbol, describe
from warplens_tools.cuda.values.loop_headers import Loop

#: Iterations up to which the compiler unrolls a loop and has its elements in registers.
FEW = 8


class ReadAgain(msgspec.Struct, frozen=True):
    """A read of elements that the thread had before."""

    access: ArrayAccess
    #: Where it had them: the same access, in another iteration of `around`, or one in a loop before.
    before: ArrayAccess
    #: The loop whose iterations read them again; None where it is the second of two loops.
    around: Loop | None = None


def read_again(tree: SourceTree, accesses: Sequence[ArrayAccess]) -> tuple[ReadAgain, ...]:
    """Reads of global memory in loops whose elements were read or written by the same thread before, in text order."""
    every = [a for a in accesses if a.space == "global" and a.loops and not a.atomic and not a.few]
    loads = [a for a in every if a.reads and not a.writes]
    found = [*_in_rounds(loads, every), *_in_passes(tree, loads, every)]
    return tuple(sorted(found, key=lambda r: (-len(r.access.loops), r.around is None, r.access.span)))


def _in_rounds(loads: Sequence[ArrayAccess], every: Sequence[ArrayAccess]) -> Iterator[ReadAgain]:
    """Loads in a loop within a loop whose index and range hang on the inner one alone."""
    for load in loads:
        form = load.index
        if form is None or len(load.loops) < 2:
            continue
        inner = load.loops[-1]
        for outer in load.loops[:-1]:
            if (
                walks(load, inner)
                and is_long(outer)
                and not hangs_on(load, outer)
                and not _is_written_in(load, outer, every)
            ):
                yield ReadAgain(load, load, outer)
                break


def _in_passes(
    tree: SourceTree, loads: Sequence[ArrayAccess], every: Sequence[ArrayAccess]
) -> Iterator[ReadAgain]:
    """Loads in the second of two loops that go through the same elements alike, one after the other."""
    for load in loads:
        inner = load.loops[-1]
        if not walks(load, inner):
            continue
        for other in every:
            earlier = (
                other.span < load.span and other.name == load.name and len(other.loops) == len(load.loops)
            )
            if not earlier or other.loops[-1].offset == inner.offset or not walks(other, other.loops[-1]):
                continue
            shared = all(a.offset == b.offset for a, b in zip(other.loops[:-1], load.loops[:-1], strict=True))
            alike = shared and not _overlap(other.loops[-1], inner) and _signature(other) == _signature(load)
            if alike and not exclude_each_other(tree, other.span, load.span):
                yield ReadAgain(load, other)
                break


def walks(access: ArrayAccess, loop: Loop) -> bool:
    """Whether the access goes on with a loop that is too long for registers alone."""
    return (
        is_long(loop)
        and bool(loop.counter)
        and access.index is not None
        and access.index.mentions(loop.counter)
    )


def is_long(loop: Loop) -> bool:
    """Whether the compiler does not unroll the loop for all that is known."""
    return bool(loop.variable) and (loop.trips is None or loop.trips > FEW)


def hangs_on(access: ArrayAccess, outer: Loop) -> bool:
    """Whether the elements that one iteration of a loop reads hang on which it is."""
    names = {outer.counter, *(f"{what}@{outer.offset}" for what in (outer.variable, "iteration"))} - {""}
    within = [loop for loop in access.loops if loop.offset > outer.offset]
    forms = [access.index, *(f for loop in within for f in (loop.first, loop.bound, loop.step))]
    if None in forms:
        return True
    return any(form.mentions(name) for form in forms if form is not None for name in names)


def _is_written_in(load: ArrayAccess, outer: Loop, every: Sequence[ArrayAccess]) -> bool:
    """Whether the loop stores to the array elsewhere than to the element itself."""
    return any(
        a.writes and a.name == load.name and a.index != load.index and outer.span.contains_line(a.span.line)
        for a in every
    )


def _overlap(a: Loop, b: Loop) -> bool:
    return a.span.contains_line(b.span.line) or b.span.contains_line(a.span.line)


def _signature(access: ArrayAccess) -> tuple[object, ...]:
    """What tells which elements a loop's access reads, whatever its counter is called."""
    loop = access.loops[-1]
    parts = [_told(f) for f in (loop.first, loop.step, loop.bound)]
    return (_renamed(access.index, loop.counter), access.member, loop.comparison, *parts)


def _told(form: Form | None) -> str:
    return describe(form) if form is not None else ""


def _renamed(form: Form | None, counter: str) -> frozenset[tuple[tuple[str, ...], int]]:
    terms = form.terms if form is not None else ()
    return frozenset((tuple(sorted(_name(s, counter) for s in symbols)), factor) for symbols, factor in terms)


def _name(symbol: Symbol, counter: str) -> str:
    return "the counter" if symbol.name == counter else symbol.name
