# SPDX-License-Identifier: Apache-2.0
"""Rows that all threads of a block walk alike: `keys[k * D + d]` in a loop over `k`, read and never written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.counting import Counting, counting
from warplens_tools.rewrite.common.declared import unqualified
from warplens_tools.rewrite.common.outputs import Outputs
from warplens_tools.rewrite.common.own_records import terms_of
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    field,
    operator_of,
    squeezed,
    stores,
    unwrapped,
)
from warplens_tools.rewrite.common.spans import span_of

#: Loops known to be shorter are over before a tile has paid.
_LEAST_TRIPS = 32
_ROW_BYTES = 1024
_JUMPS = frozenset({"return_statement", "goto_statement", "break_statement"})


class Rows(msgspec.Struct, frozen=True):
    """Rows of one array, as one loop walks them."""

    #: The pointer that is subscripted, and what is added to each index beside the row and the place in it.
    pointer: str
    base: str
    type: str
    bytes_each: int
    #: Elements of a row, and how that is written.
    length: int
    written: str
    elements: tuple[tuple[Node, str], ...]

    @property
    def bytes(self) -> int:
        """Of one row."""
        return self.length * self.bytes_each


class AlikeLoop(msgspec.Struct, frozen=True):
    """A loop that all threads of a block walk alike, and the rows in it."""

    loop: Counting
    type: str
    bound: Node
    rows: tuple[Rows, ...]


def alike_loop(view: View, outputs: Outputs, node: Node) -> AlikeLoop | None:
    """A loop with such rows; None for any other statement."""
    loop = counting(view.expanded, node) if node.type == "for_statement" else None
    if loop is None or loop.downward or loop.step != "1" or len(loop.bounds) != 1 or not loop.declared:
        return None
    if operator_of(unwrapped(field(node, "condition"))) != "<" or loop.first is None:
        return None
    names = view.names(loop.first) | view.names(loop.bounds[0])
    told = not any(view.elements(loop.first)) and not any(view.elements(loop.bounds[0]))
    if outputs.resting(names) or not told or "threadIdx" in view.code(field(node, "condition")):
        return None
    trips = view.forms.loop(node).trips
    if (trips is not None and trips < _LEAST_TRIPS) or any(_leaves(n, node) for n in walk(loop.body)):
        return None
    rows = tuple(_Reader(view, outputs, loop).rows())
    kind = field(field(node, "initializer"), "type")
    return AlikeLoop(loop, unqualified(view.code(kind)), loop.bounds[0], rows) if rows else None


def _leaves(node: Node, loop: Node) -> bool:
    """Whether a jump leaves the loop."""
    if node.type not in _JUMPS:
        return False
    outer = node.parent
    while node.type == "break_statement" and outer is not None and outer.id != loop.id:
        if outer.type in LOOPS or outer.type == "switch_statement":
            return False
        outer = outer.parent
    return True


class _Reader:
    """The rows of one loop."""

    def __init__(self, view: View, outputs: Outputs, loop: Counting) -> None:
        self.view, self.outputs, self.loop = view, outputs, loop
        self.counter = view.forms.loop(loop.node).counter
        self.written = {view.array(e) for e in stores(view, view.body)}
        #: What the loop's body declares.
        self.inside = {
            view.code(n)
            for d in walk(loop.body)
            if d.type == "declaration"
            for one in d.children_by_field_name("declarator")
            for n in walk(one.child_by_field_name("declarator") or one)
            if n.type == "identifier"
        }
        self.changed = {name for name, _ in assigned(view.body, view)}

    def rows(self) -> Iterator[Rows]:
        """Those that every thread reads at the same places."""
        found: dict[tuple[str, str, str], list[tuple[Node, str]]] = {}
        lengths: dict[tuple[str, str, str], tuple[int, str, str]] = {}
        for element in self.view.elements(self.loop.body):
            read = self._element(element)
            if read is not None:
                pointer, base, length, written, rest = read
                key = (pointer, base, written)
                found.setdefault(key, []).append((element, rest))
                lengths[key] = (length, written, self.view.element(element))
        for (pointer, base, _), elements in found.items():
            length, written, kind = lengths[pointer, base, _]
            plain = self.view.concrete(kind.replace("const", "").strip())
            size = type_bytes(plain) or layouts_of(self.view.tree).bytes(plain)
            if plain and size and size * length <= _ROW_BYTES:
                yield Rows(pointer, base, plain, size, length, written, tuple(elements))

    def _element(self, element: Node) -> tuple[str, str, int, str, str] | None:
        """The pointer, the base, the row's length as a number and as written, and the place in the row."""
        view = self.view
        if element.type != "subscript_expression" or not self.counter:
            return None
        base, listed = field(element, "argument"), field(element, "indices").named_children
        if base.type != "identifier" or len(listed) != 1 or not view.is_plain_enough(element):
            return None
        name = view.code(base)
        fixed = name not in self.changed and not self.outputs.rests.get(name)
        if not fixed or view.space(element) != "global" or view.array(element) in self.written:
            return None
        try:
            return self._index(name, list(terms_of(listed[0])))
        except Refused:
            return None

    def _index(self, name: str, terms: Sequence[tuple[str, Node]]) -> tuple[str, str, int, str, str] | None:
        view, rows = self.view, list[Node]()
        bases, places = list[tuple[str, Node]](), list[tuple[str, Node]]()
        low = high = 0
        for sign, term in terms:
            form = view.forms.traced(term)
            if form is None or self.outputs.resting(view.names(term)) or form.mentions("threadIdx.x"):
                return None
            span = span_of(view, term)
            if form.coefficient(self.counter) != 0 or form.mentions(self.counter):
                rows.append(term)
                if sign == "-":
                    return None
            elif span is not None:
                places.append((sign, term))
                low, high = (
                    (low + span[0], high + span[1]) if sign == "+" else (low - span[1], high - span[0])
                )
            elif any(s.kind == "loop" for s in form.symbols) or view.names(term) & self.inside:
                return None
            else:
                bases.append((sign, term))
        length, written = self._length(rows)
        if not length or low < 0 or high >= length:
            return None
        return name, self._sum(bases), length, written, self._sum(places) or "0"

    def _length(self, rows: list[Node]) -> tuple[int, str]:
        """Of `k` or `k * D` how far rows are apart, and how that is written; 0 where the row is another expression."""
        view = self.view
        if len(rows) != 1:
            return 0, ""
        node = unwrapped(rows[0])
        if node.type == "cast_expression":
            node = unwrapped(field(node, "value"))
        if squeezed(view.code(node)) == self.loop.variable:
            return 1, "1"
        if node.type != "binary_expression" or operator_of(node) != "*":
            return 0, ""
        for one, other in (("left", "right"), ("right", "left")):
            side = re.sub(r"^\([\w\s]+\)", "", view.code(unwrapped(field(node, one))).strip())
            factor = field(node, other)
            value = view.value(factor)
            if side == self.loop.variable and value is not None and value > 0:
                return value, view.written(factor)
        return 0, ""

    def _sum(self, terms: Sequence[tuple[str, Node]]) -> str:
        return " ".join(f"{s} {self.view.written(t)}" for s, t in terms).removeprefix("+ ")
