# SPDX-License-Identifier: Apache-2.0
"""A thread's own array, and the loops that it is walked by: read for what keeps it in registers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import ArrayDeclaration
from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting
from warplens_tools.rewrite.common.passes import is_unconditional
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    assigned,
    calls,
    field,
    squeezed,
    stores,
    unwrapped,
)

#: Registers that an array may take of the 255 that a thread has, and bodies that one unrolled nest may come to.
_MOST, _BODIES, _FEW = 160, 640, 4
_INDEX = re.compile(r"(\w+)(?:([+-])(\d+))?")
_LITERAL = re.compile(r"\d+")


class Walk(msgspec.Struct):
    """A loop by whose variable an array is indexed, and what it counts up to at most."""

    loop: Counting
    #: The constant bound that is never reached, as a number (how often it runs at most) and as written.
    end: int
    written: str


class WalkedArray:
    """Every use of a thread's own array: by loops that count to a bound, or picked by data, once each.

    Raises:
        Refused: it is used in another way, or is not worth its registers.
    """

    def __init__(self, view: View, array: ArrayDeclaration) -> None:
        self.view, self.array, self.name = view, array, array.name
        self.size, self.extent = self._extent()
        self.walks: dict[int, Walk] = {}
        self.picked: list[Node] = []
        for node in self._elements():
            self._read(node)
        if not self.walks or not (self.picked or any(self.has_bound(w) for w in self.walks.values())):
            raise Refused("the thread has no array of its own that a loop with a run-time bound indexes")
        self._check_size()

    def _extent(self) -> tuple[str, int]:
        size = self._declarator().child_by_field_name("size")
        known = self.view.value(size)
        each = type_bytes(self.array.element_type)
        if size is None or known is None or each is None:
            raise Refused("how many elements its array has is not known")
        if not _FEW <= known <= _MOST // max(each // 4, 1):
            raise Refused("its array has too few elements to matter, or too many for registers")
        return self.view.written(size).strip(), known

    def _declarator(self) -> Node:
        for node in walk(self.view.body):
            inner = node.child_by_field_name("declarator") if node.type == "array_declarator" else None
            if inner is not None and self.view.code(inner) == self.name:
                return node
        raise Refused("its array is not declared in the kernel")

    def _elements(self) -> Iterator[Node]:
        """Every use of the array, each of one element."""
        for node in walk(self.view.body):
            if node.type != "identifier" or self.view.code(node) != self.name:
                continue
            outer = node.parent
            if outer is not None and outer.type == "array_declarator":
                if outer.parent is not None and outer.parent.type == "init_declarator":
                    raise Refused("its array is initialised as a whole")
                continue
            if outer is None or outer.type != "subscript_expression" or outer.children[0].id != node.id:
                raise Refused("its array is passed on")
            yield outer

    def index(self, element: Node) -> Node:
        """The one index of an element."""
        listed = field(element, "indices").named_children
        if len(listed) != 1:
            raise Refused("its array has several indices")
        return listed[0]

    def _read(self, element: Node) -> None:
        """Note the loop that an element is indexed by, or that it is picked."""
        index = self.index(element)
        if self.view.value(index) is not None:
            return
        shape = _INDEX.fullmatch(squeezed(self.view.code(unwrapped(index))))
        loop = self._loop(element, shape[1]) if shape is not None else None
        if shape is None or loop is None:
            self._pick(element, index)
            return
        shift = int(shape[3] or 0) * (-1 if shape[2] == "-" else 1)
        self._bound(loop, element, shift)

    def _loop(self, node: Node, name: str) -> Counting | None:
        outer = node.parent
        while outer is not None and outer.id != self.view.body.id:
            if outer.type == "for_statement":
                loop = counting(self.view.expanded, outer)
                if loop is not None and loop.variable == name:
                    return loop if loop.declared and self._is_plain(loop) else None
            outer = outer.parent
        return None

    def _is_plain(self, loop: Counting) -> bool:
        begin = self.view.value(loop.first)
        body = field(loop.node, "body")
        own = (name for name, _ in assigned(body, self.view))
        return (
            not loop.downward
            and loop.step == "1"
            and len(loop.bounds) == 1
            and begin is not None
            and begin >= 0
            and loop.variable not in own
        )

    def _bound(self, loop: Counting, element: Node, shift: int) -> None:
        first = self.view.value(loop.first) or 0
        if any(n.type in JUMPS for n in walk(loop.body)):
            raise Refused("a loop over its array is left early")
        walked = self.walks.setdefault(loop.node.id, Walk(loop, 0, ""))
        if first + shift < 0:
            raise Refused("an element before its array's first is used")
        if not is_unconditional(element, loop.body):
            return
        end = self.extent - shift
        if not walked.end or end < walked.end:
            walked.end, walked.written = end, self._less(shift)

    def _less(self, shift: int) -> str:
        """The array's size less a shift, as one writes it."""
        last = re.fullmatch(r"(.*?)\s*\+\s*(\d+)", self.size)
        if shift and last is not None and int(last[2]) == shift and re.fullmatch(r"\w+", last[1]):
            return last[1]
        if not shift:
            return self.size
        whole = self.size if re.fullmatch(r"\w+", self.size) else f"({self.size})"
        return (
            str(self.extent - shift)
            if _LITERAL.fullmatch(self.size)
            else (f"{whole} - {shift}" if shift > 0 else f"{whole} + {-shift}")
        )

    def _pick(self, element: Node, index: Node) -> None:
        """Note an element that data choose: it is read, once, and not in a loop."""
        outer = element.parent
        while outer is not None and outer.id != self.view.body.id:
            if outer.type in LOOPS:
                raise Refused("data choose an element of its array in a loop")
            outer = outer.parent
        if any(n.id == element.id for n in stores(self.view, self.view.body)):
            raise Refused("data choose the element of its array that is written")
        if any(calls(index, self.view)) or any(n.type == "update_expression" for n in walk(index)):
            raise Refused("data choose an element of its array")
        statement = self.statement(element)
        if statement is None:
            raise Refused("data choose an element of its array under a condition")
        set_ = {name for name, _ in assigned(statement, self.view)}
        set_ |= {self.view.code(n) for n in walk(statement) if n.type == "identifier" and is_declared(n)}
        if set_ & self.view.names(index) or any(n.type == "comma_expression" for n in walk(statement)):
            raise Refused("data choose an element of its array by what the same statement sets")
        self.picked.append(element)

    def statement(self, node: Node) -> Node | None:
        """The statement of a block that holds a node and computes it, whatever happens."""
        outer: Node | None = node
        while outer is not None and outer.type not in ("expression_statement", "declaration"):
            if outer.type in ("conditional_expression", "lambda_expression"):
                return None
            outer = outer.parent
        held = outer is not None and outer.parent is not None and outer.parent.type == "compound_statement"
        return outer if held else None

    def has_bound(self, walked: Walk) -> bool:
        """Whether how often it runs is known at run time alone."""
        return self.view.value(walked.loop.bounds[0]) is None

    def _check_size(self) -> None:
        for walked in self.walks.values():
            if not walked.end:
                raise Refused("nothing says how far a loop over its array goes")
            bodies, outer = 1, walked.loop.node
            while outer is not None and outer.id != self.view.body.id:
                mine = self.walks.get(outer.id)
                bodies *= mine.end if mine is not None else 1
                outer = outer.parent  # type: ignore[assignment]
            if bodies > _BODIES:
                raise Refused("its loops are too long to be unrolled")


def is_declared(node: Node) -> bool:
    """Whether a name stands where it is declared."""
    parent = node.parent
    return (
        parent is not None
        and parent.type in ("init_declarator", "declaration", "array_declarator")
        and (
            parent.child_by_field_name("declarator") is not None
            and holds(parent.child_by_field_name("declarator") or parent, node)
        )
    )
