# SPDX-License-Identifier: Apache-2.0
"""Accesses that lie beside each other: the same array, in the same loops, whose index differs by a constant."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.cuda.values.forms import Form, Monomial
from warplens_tools.kernel_code import KernelCode
from warplens_tools.lazily import cached_property
from warplens_tools.machine.footprint import merged


class Place(msgspec.Struct, frozen=True):
    """An access with its byte ranges in an element."""

    access: ArrayAccess
    element: int
    ranges: tuple[tuple[int, int], ...]
    lines: tuple[int, ...]


def place_of(code: KernelCode, access: ArrayAccess) -> Place | None:
    """The access with the bytes of an element that it takes; None where its index or its element is not known."""
    tree, element = code.tree, code.element_bytes(access.element_type)
    if access.index is None or element is None:
        return None
    line = access.span.line
    if access.member:
        place = layouts_of(tree).place(access.element_type, access.member)
        return Place(access, element, (place,), (line,)) if place is not None else None
    uses = _member_uses(code, access) if access.element_type in layouts_of(tree).records else {}
    places = [_used_bytes(code, access.element_type, m) for m in uses]
    known = [p for p in places if p is not None]
    if not uses or len(known) < len(places):
        return Place(access, element, ((0, element),), (line,))
    lines = {line, *(n for found in uses.values() for n in found)}
    return Place(access, element, tuple(sorted(known)), tuple(sorted(lines)))


def _used_bytes(code: KernelCode, record: str, path: str) -> tuple[int, int] | None:
    """Offset and size of `.a.b` in a record that a name is bound to: of a member that is an array, all of it."""
    found = layouts_of(code.tree).member(record, path.removeprefix("."))
    return (found.offset, found.size) if found is not None else None


def _member_uses(code: KernelCode, access: ArrayAccess) -> dict[str, list[int]]:
    """Members that the kernel uses of `Particle p = particles[i];`, with their lines: it loads no others.

    Empty where the whole record is used, or it is bound to no name.
    """
    text, column = code.text, access.span.column - 1
    bound = re.search(r"[\s&](\w+)\s*[={(]\s*\Z", text.line_text(access.span.line)[:column])
    if bound is None or not access.reads:
        return {}
    use = re.compile(rf"\b{bound[1]}\b((?:\s*\.\s*\w+)*)")
    found: dict[str, list[int]] = {}
    for line in range(access.span.line, code.kernel.body.end_line + 1):
        for hit in use.finditer(text.line_text(line), column if line == access.span.line else 0):
            found.setdefault("".join(hit[1].split()), []).append(line)
    return {} if "" in found else found


class Siblings:
    """Accesses of the same array in the same loops whose index differs by a constant, in text order."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        #: Whether a loop further in goes on from here by less than a sector: what one access leaves, that one takes.
        self.walked = False

    @cached_property
    def union(self) -> tuple[tuple[int, int], ...]:
        """The byte ranges of an element that they take together."""
        return merged(p.ranges for p in self.places)

    @cached_property
    def read(self) -> bool:
        """Whether one of them reads."""
        return any(p.access.reads for p in self.places)


def likeness(place: Place) -> tuple[object, ...]:
    """The same for siblings alone."""
    access = place.access
    loops = tuple(loop.offset for loop in access.loops)
    return access.name, place.element, loops, without_constant(access.index)


def siblings_among(places: Sequence[Place]) -> dict[tuple[object, ...], Siblings]:
    """The places by what makes them siblings."""
    found: dict[tuple[object, ...], Siblings] = {}
    for place in places:
        found.setdefault(likeness(place), Siblings()).places.append(place)
    for walked in filter(None, map(_walked, places)):
        if walked in found:
            found[walked].walked = True
    return found


def _walked(place: Place) -> tuple[object, ...] | None:
    """The likeness of what the innermost loop around a place goes on from; None where it goes farther than a sector."""
    index, loops = place.access.index, place.access.loops
    if index is None or not loops or not loops[-1].counter:
        return None
    moved = index.coefficient(loops[-1].counter)
    if not moved or abs(moved) * place.element >= SECTOR_BYTES:
        return None
    terms = tuple(t for t in without_constant(index) if all(s.name != loops[-1].counter for s in t[0]))
    return place.access.name, place.element, tuple(loop.offset for loop in loops[:-1]), terms


def without_constant(form: Form | None) -> tuple[tuple[Monomial, int], ...]:
    """The terms of an index that hang on something."""
    return tuple(t for t in form.terms if t[0]) if form is not None else ()
