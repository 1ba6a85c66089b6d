# SPDX-License-Identifier: Apache-2.0
"""Accesses that lie beside each other: the same array, in the same loops, whose index differs by a constant."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_tools.arch.gpu import SECTOR_BYTES
from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.cuda.values.forms import Form, Monomial
from warplens_tools.lazily import cached_property
from warplens_tools.machine.footprint import merged


class Place(msgspec.Struct, frozen=True):
    """An access with its byte ranges in an element."""

    access: ArrayAccess
    element: int
    ranges: tuple[tuple[int, int], ...]
    lines: tuple[int, ...]


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
