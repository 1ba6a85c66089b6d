# SPDX-License-Identifier: Apache-2.0
"""What neighbouring outputs of a thread read of the same rows: loaded once before their loop, in vectors."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.aliasing import same_buffer
from warplens_tools.cuda.syntax.tree import LOOPS, is_assigned, walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.forms import Form
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.counting import counting
from warplens_tools.rewrite.common.declared import Declared, is_set, plainly_declared_in
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    field,
    operator_of,
    statements,
    stores,
)

_BRANCHES = LOOPS | {"if_statement", "conditional_expression", "switch_statement"}
#: Rows longer than this many elements beyond a thread's own would not stay in registers.
_MOST_BESIDE = 16
_MOST_FIELDS = 4
#: Loops of more iterations are not unrolled, and their rows not kept in registers.
_MOST_TRIPS = 9
_SIZES = (1, 2, 4, 8)


class Walk(msgspec.Struct, frozen=True):
    """A loop of a few iterations within an output, and how far an element goes along its row in each; 0 for a loop
    that goes from row to row.
    """

    loop: Node
    variable: str
    first: int
    trips: int
    by: int


class Place(msgspec.Struct, frozen=True):
    """An element, its offset in its row where loops begin, and those that walk along it."""

    node: Node
    offset: int
    along: tuple[Walk, ...] = ()

    @property
    def last(self) -> int:
        """Its offset where the loops that walk along its row end."""
        return self.offset + sum(w.by * (w.trips - 1) for w in self.along)


class Row(msgspec.Struct, frozen=True):
    """Elements of one array that lie beside each other, however far, and go along with the outputs."""

    array: str
    type: str
    #: From one output's to the next one's.
    fields: int
    places: tuple[Place, ...]
    stored: bool
    #: The loops that go from one such row to the next.
    across: tuple[Walk, ...] = ()

    @property
    def least(self) -> int:
        """The least offset of its elements."""
        return min(p.offset for p in self.places)

    @property
    def beside(self) -> int:
        """How many elements lie between the first and the last of an output's."""
        return max(p.last for p in self.places) - self.least


class StagedReader:
    """A loop over neighbouring outputs of a thread, and the rows that they read and write."""

    def __init__(self, view: View, loop: Node) -> None:
        self.view, self.loop = view, loop
        counted = counting(view.expanded, loop)
        trips = view.forms.loop(loop).trips
        if counted is None or trips is None or not 2 <= trips <= 16 or counted.step != "1":
            raise Refused("the outputs of a thread are not counted")
        self.counter, self.count, self.symbol = counted.variable, trips, view.forms.loop(loop).counter
        self.bound = view.written(counted.bounds[0]) if len(counted.bounds) == 1 else str(trips)
        self.body = list(_flat(field(loop, "body")))
        if any(n.type in JUMPS and not _is_inner(n, loop) for b in self.body for n in walk(b)):
            raise Refused("some outputs are left early")
        self.declared = self._declarations()
        self.rows = self._rows()

    def _declarations(self) -> list[Declared]:
        """What the loop declares before it does anything else."""
        found = list[Declared]()
        for node in self.body:
            every = plainly_declared_in(self.view, node)
            if not every:
                break
            found += every
        return [d for d in found if not is_set(self.view, self.body, d)]

    # what is there

    def _rows(self) -> list[Row]:
        view, found = self.view, dict[tuple[str, Form, tuple[str, ...]], Row]()
        written = {e.id for n in self.body for e in stores(view, n)}
        arrays = {view.array(e) for n in self.body for e in view.elements(n) if e.id in written}
        shared = same_buffer(view.file, view.model, view.kernel)
        for element in (e for n in self.body for e in view.elements(n)):
            stored, array = element.id in written, view.array(element)
            same = shared if array in shared else {array}
            read = self._element(element)
            if read is None or (stored and not _is_plain_store(element)):
                continue
            if len(arrays & same) > (1 if stored else 0):
                continue
            base, one = read
            one = msgspec.structs.replace(one, array=array, stored=stored)
            key = (array, base, tuple(w.variable for w in one.across))
            known = found.get(key)
            if known is None:
                found[key] = one
            elif (known.fields, known.stored) == (one.fields, one.stored):
                found[key] = msgspec.structs.replace(known, places=(*known.places, *one.places))
        sure = {r.array for r in found.values() for p in r.places if self._is_sure(p.node)}
        return [r for r in found.values() if r.array in sure and self._is_usable(r)]

    def _element(self, node: Node) -> tuple[Form, Row] | None:
        """The row of an element, and its place in it; None for what stays, or is walked by loops of any length."""
        view, pointer = self.view, self.view.place(node)
        if node.type != "subscript_expression" or pointer is None or pointer.space != "global":
            return None
        kind, form = view.concrete(pointer.element_type), pointer.traced
        if (
            form is None
            or type_bytes(kind) not in _SIZES
            or not self.symbol
            or not view.is_plain_enough(node)
        ):
            return None
        fields, base = form.coefficient(self.symbol), forms.subtract(form, forms.number(form.constant))
        if base is None or fields is None or not 1 <= fields <= _MOST_FIELDS:
            return None
        along, across = list[Walk](), list[Walk]()
        for loop in [n for n in _between(node, self.loop) if n.type in LOOPS][::-1]:
            symbol, walk_ = view.forms.loop(loop).counter, self._walk(loop)
            growth = form.growth(symbol) if symbol else None
            if growth is None or walk_ is None or (growth.value is not None and growth.value < 0):
                return None
            if growth.value is None:
                across.append(walk_)
            elif growth.value:
                along.append(msgspec.structs.replace(walk_, by=growth.value))
        place = Place(node, form.constant, tuple(along))
        return base, Row("", kind, fields, (place,), stored=False, across=tuple(across))

    def _walk(self, loop: Node) -> Walk | None:
        """A loop of a few iterations that counts up; None for any other."""
        counted, trips = counting(self.view.expanded, loop), self.view.forms.loop(loop).trips
        if counted is None or trips is None or not 1 <= trips <= _MOST_TRIPS or not counted.declared:
            return None
        first = self.view.value(counted.first) if counted.first is not None else None
        plain = counted.step == "1" and not counted.downward and first is not None
        return Walk(loop, counted.variable, first or 0, trips, 0) if plain else None

    def _is_sure(self, node: Node) -> bool:
        """Whether every output comes to an element, but for iterations that are left out for all."""
        around = list(_between(node, self.loop))
        walks = (self._walk(n) for n in around if n.type in LOOPS)
        counters = {one.variable for one in walks if one is not None}
        tests = [b.child_by_field_name("condition") for b in around if b.type in _BRANCHES - LOOPS]
        return all(test is not None and self.view.names(test) <= counters for test in tests)

    def _is_usable(self, row: Row) -> bool:
        """Whether a row is short, whole where it is stored, and can be named before the loop."""
        if row.beside > _MOST_BESIDE or self.spelt(row) is None:
            return False
        if not row.stored:
            return True
        whole = sorted(p.offset - row.least for p in row.places) == list(range(row.fields))
        looped = row.across or any(p.along for p in row.places)
        return whole and not looped and all(self._is_sure(p.node) for p in row.places)

    @staticmethod
    def first(row: Row) -> Place:
        """The element that comes first in memory."""
        return min(row.places, key=lambda p: p.offset)

    def spelt(self, row: Row) -> list[Declared] | None:
        """The declarations that a row's place needs; None where it needs more than these."""
        view, place = self.view, self.first(row)
        needed, kept = set(view.names(place.node)), list[Declared]()
        every = [d for n in walk(self.loop) if n.type == "declaration" for d in plainly_declared_in(view, n)]
        seen = [d for d in every if d in self.declared or self._is_around(d, place.node)]
        counters = {w.variable for w in (*row.across, *place.along)} | {self.counter}
        for one in reversed(seen):
            if one.name in needed and one.name not in counters:
                kept.append(one)
                needed |= view.names(one.value) if one.value is not None else frozenset()
        missing = needed & ({d.name for d in every} - {d.name for d in kept} - counters)
        return None if missing else kept[::-1]

    def _is_around(self, one: Declared, node: Node) -> bool:
        """Whether a variable is declared, once and for all, in a loop around an element."""
        block = one.statement.parent
        holds = block is not None and block.start_byte <= node.start_byte < block.end_byte
        return holds and one.statement.end_byte <= node.start_byte and not is_set(self.view, self.body, one)


def _flat(block: Node) -> Iterator[Node]:
    """A block's statements, and those of blocks that stand alone in it, as conditions leave them that are gone."""
    for node in statements(block):
        if node.type == "compound_statement":
            yield from _flat(node)
        else:
            yield node


def _is_inner(node: Node, loop: Node) -> bool:
    """Whether a jump ends a loop within, or one of its iterations."""
    leaves = node.type in ("break_statement", "continue_statement")
    return leaves and any(n.type in LOOPS for n in _between(node, loop))


def _between(node: Node, loop: Node) -> Iterator[Node]:
    """What stands around a node within a loop's body."""
    child, outer = node, node.parent
    while outer is not None and outer.id != loop.id:
        test = outer.child_by_field_name("condition")
        if test is None or test.id != child.id or outer.type in LOOPS:
            yield outer
        child, outer = outer, outer.parent


def _is_plain_store(element: Node) -> bool:
    outer = element.parent
    return (
        is_assigned(element)
        and outer is not None
        and outer.type == "assignment_expression"
        and operator_of(outer) == "="
        and outer.parent is not None
        and outer.parent.type == "expression_statement"
    )
