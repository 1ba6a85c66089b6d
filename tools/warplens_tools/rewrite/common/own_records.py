# SPDX-License-Identifier: Apache-2.0
"""Records of a thread's own: as many elements of an array behind each other as a constant says, for each output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.cuda.values.forms import subtract
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.counting import counting
from warplens_tools.rewrite.common.declared import plainly_declared_in
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import Axis, Outputs
from warplens_tools.rewrite.common.reading import View, field, operator_of, stores, unwrapped
from warplens_tools.rewrite.common.spans import of_counter, span_of

#: Elements that are no words would share banks, and be told apart by more instructions than they cost.
_WORDS = (4, 8)
#: What nothing but the way through a kernel goes by.
_PLAIN = frozenset({"compound_statement", "expression_statement", "assignment_expression"})
#: A record of fewer bytes than memory moves at once wastes none of them.
_LEAST_BYTES, _MOST_BYTES = 32, 1024


class Record(msgspec.Struct, frozen=True):
    """One array's records."""

    array: str
    #: Of an element, without `const`.
    type: str
    length: int
    #: Where a pointer into it is given its place, and elements of the array itself with what of their index remains.
    begins: tuple[Node, ...]
    elements: tuple[tuple[Node, str], ...]
    written: bool
    #: Something that it had before is needed: it is read, or not written all over.
    needed: bool

    @property
    def bytes(self) -> int:
        """Of one record."""
        return self.length * (type_bytes(self.type) or 0)


class RecordReader:
    """The records of one kernel's outputs along an axis."""

    def __init__(self, view: View, axis: Axis) -> None:
        self.view, self.axis = view, axis
        self._names = [n for n in walk(view.body) if n.type == "identifier"]
        self._stored = {n.id for n in stores(view, view.body)}

    def records(self) -> Iterator[Record]:
        """Those of all arrays that are accessed in no other way."""
        for one in self.view.kernel.parameters:
            kind = self.view.concrete(one.element_type.replace("const", "").strip()) if one.pointer else ""
            if type_bytes(kind) not in _WORDS:
                continue
            try:
                found = self._read(one.name, kind)
            except Refused:
                continue
            if found is not None and _LEAST_BYTES <= found.bytes <= _MOST_BYTES:
                yield found

    def _read(self, array: str, kind: str) -> Record | None:
        lengths, begins = set[int](), list[Node]()
        elements = list[tuple[Node, str]]()
        places = list[Node]()
        for use in self._uses(array):
            element = _element(use)
            if element is not None:
                length, terms = self._split(_index(element))
                self._check_inside(terms, length)
                elements.append((element, self._sum(terms)))
                places.append(element)
                lengths.add(length)
                continue
            begin, name = self._begun(use)
            length, terms = self._split(begin)
            if terms:
                raise Refused("a pointer begins inside a record")
            lengths.add(length)
            begins.append(use)
            for inner in self._uses(name):
                element = _element(inner)
                if inner.parent is not None and inner.parent.type.endswith("declarator"):
                    continue
                if element is None or not _within(span_of(self.view, _index(element)), length):
                    raise Refused("an element may lie outside of the record")
                places.append(element)
        if len(lengths) != 1 or not places:
            return None
        length = lengths.pop()
        written = any(e.id in self._stored for e in places)
        read = any(e.id not in self._stored or self._updates(e) for e in places)
        covered = any(self._covers(e, length) for e in places if e.id in self._stored)
        return Record(
            array, kind, length, tuple(begins), tuple(elements), written, read or (written and not covered)
        )

    def _uses(self, name: str) -> list[Node]:
        return [n for n in self._names if self.view.code(n) == name]

    def _begun(self, use: Node) -> tuple[Node, str]:
        """What is added to an array where a pointer is declared, and its name."""
        holder, at, name = use.parent, use, None
        while holder is not None and holder.type in ("binary_expression", "parenthesized_expression"):
            at = holder
            holder = holder.parent
        if holder is not None and holder.type == "init_declarator":
            name = holder.child_by_field_name("declarator")
        while name is not None and name.type == "pointer_declarator":
            name = name.child_by_field_name("declarator")
        if name is None or name.type != "identifier" or operator_of(unwrapped(at)) != "+":
            raise Refused("the array is passed on")
        if unwrapped(field(unwrapped(at), "left")).id != use.id:
            raise Refused("the array is passed on")
        return field(unwrapped(at), "right"), self.view.code(name)

    def _split(self, index: Node) -> tuple[int, list[tuple[str, Node]]]:
        """Of `b * 36 + i * 6 + k` 36 and the terms that remain, with their signs."""
        kept, length = list[tuple[str, Node]](), 0
        for sign, term in terms_of(index):
            factor = self._factor(term)
            if factor is None:
                kept.append((sign, term))
            elif sign == "+":
                length += factor
            else:
                raise Refused("records are counted down")
        if length <= 0:
            raise Refused("elements are no record of the thread's own")
        return length, kept

    def _sum(self, terms: Sequence[tuple[str, Node]]) -> str:
        """Terms as the user wrote them."""
        return " ".join(f"{s} {self.view.written(t)}" for s, t in terms).removeprefix("+ ")

    def _factor(self, term: Node) -> int | None:
        """How many times the output's number a term is; None for one that has nothing to do with it."""
        form = self.view.forms.traced(term)
        if form is None:
            raise Refused("an index is not understood")
        factor = form.coefficient("threadIdx.x")
        if factor == 0 and not form.mentions("threadIdx.x"):
            return None
        number = self.view.forms.form(self._value())
        if not factor or number is None:
            raise Refused("an index is not understood")
        rest = form
        for _ in range(factor):
            found = subtract(rest, number)
            if found is None:
                raise Refused("an index is not understood")
            rest = found
        if rest.terms:
            raise Refused("an index is not understood")
        return factor

    def _value(self) -> Node | None:
        for statement in self.view.body.named_children:
            for one in plainly_declared_in(self.view, statement):
                if one.name == self.axis.name:
                    return one.value
        return None

    def _check_inside(self, terms: Sequence[tuple[str, Node]], length: int) -> None:
        low = high = 0
        for sign, term in terms:
            found = span_of(self.view, term)
            if found is None:
                raise Refused("an element may lie outside of the record")
            low, high = (
                (low + found[0], high + found[1]) if sign == "+" else (low - found[1], high - found[0])
            )
        if not _within((low, high), length):
            raise Refused("an element may lie outside of the record")

    def _updates(self, element: Node) -> bool:
        """Whether a store reads what was there: `c[i] += x`."""
        outer = element.parent
        return outer is not None and (outer.type == "update_expression" or operator_of(outer) != "=")

    def _covers(self, element: Node, length: int) -> bool:
        """Whether loops that nothing keeps from it store all elements of a record through one."""
        form = self.view.forms.form(_index(element))
        loops, node = list[tuple[int, int]](), element.parent
        while node is not None and node.id != self.view.body.id:
            if node.type in LOOPS:
                loop = counting(self.view.expanded, node)
                known = of_counter(self.view, loop) if loop is not None else None
                counter = self.view.forms.loop(node).counter
                by = form.coefficient(counter) if form is not None and counter else None
                trips = self.view.forms.loop(node).trips
                if known is None or by is None or trips is None or known[1] - known[0] + 1 != trips:
                    return False
                loops.append((by, trips))
            elif node.type not in _PLAIN and not self._is_guard(node):
                return False
            node = node.parent
        reached = 1
        for by, trips in sorted(one for one in loops if one[0]):
            if by != reached:
                return False
            reached *= trips
        return reached == length

    def _is_guard(self, node: Node) -> bool:
        """Whether a condition stands around all of the kernel's work."""
        return node.type == "if_statement" and node.parent is not None and node.parent.id == self.view.body.id


def record_axis(launches: Launches, outputs: Outputs) -> Axis:
    """The axis that numbers the records.

    Raises:
        Refused: threads are numbered in another way.
    """
    axes, alone = outputs.axes, [launches.block_value(1), launches.block_value(2)] == [1, 1]
    if len(axes) != 1 or axes[0].letter != "x" or not axes[0].limit or not axes[0].value or not alone:
        raise Refused("threads are not numbered along one axis up to a limit")
    jumps = any(n.type == "return_statement" for w in outputs.work for n in walk(w))
    if axes[0].offset or outputs.early or jumps:
        raise Refused("some outputs are done early")
    return axes[0]


def _element(use: Node) -> Node | None:
    """The element of which a name is the array; None for any other use."""
    outer = use.parent
    base = outer.child_by_field_name("argument") if outer is not None else None
    if outer is None or outer.type != "subscript_expression" or base is None or base.id != use.id:
        return None
    return outer


def _index(element: Node) -> Node:
    listed = field(element, "indices").named_children
    if len(listed) != 1:
        raise Refused("an element has several indices")
    return listed[0]


def terms_of(node: Node, sign: str = "+") -> Iterator[tuple[str, Node]]:
    """The terms of a sum, with their signs."""
    node = unwrapped(node)
    kind = operator_of(node) if node.type == "binary_expression" else ""
    if kind not in ("+", "-"):
        yield sign, node
        return
    yield from terms_of(field(node, "left"), sign)
    other = sign if kind == "+" else ("-" if sign == "+" else "+")
    yield from terms_of(field(node, "right"), other)


def _within(span: tuple[int, int] | None, length: int) -> bool:
    return span is not None and span[0] >= 0 and span[1] < length
