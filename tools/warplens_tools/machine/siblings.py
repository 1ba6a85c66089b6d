# SPDX-License-Identifier: Apache-2.0
"""Accesses that lie beside each other: the same array, in the same loops, whose index differs by a constant."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

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
    return found


def without_constant(form: Form | None) -> tuple[tuple[Monomial, int], ...]:
    """The terms of an index that hang on something."""
    return tuple(t for t in form.terms if t[0]) if form is not None else ()
