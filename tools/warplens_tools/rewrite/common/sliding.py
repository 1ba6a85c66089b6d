# SPDX-License-Identifier: Apache-2.0
"""Loops over windows that slide: an iteration reads what the one before it read for the output beside."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, walk
from warplens_tools.rewrite.common.counting import Counting, counting
from warplens_tools.rewrite.common.declared import plainly_declared_in
from warplens_tools.rewrite.common.reading import (
    View,
    assigned,
    field,
    operator_of,
    squeezed,
    stores,
    unwrapped,
)


class Window(msgspec.Struct, frozen=True):
    """Elements of one array that slide by one from output to output and from iteration to iteration."""

    name: str
    type: str
    #: Whether an iteration goes on the way that outputs do.
    upward: bool
    #: One of the accesses.
    element: Node
    places: tuple[Node, ...]


class Sliding(msgspec.Struct, frozen=True):
    """A loop whose iterations read windows' elements for several outputs at once."""

    loop: Counting
    windows: tuple[Window, ...]


class SlidingReader:
    """Reads the loops of a kernel whose outputs the variable `axis` numbers along x."""

    def __init__(self, view: View, axis: str) -> None:
        self.view, self._axis = view, axis
        self._stored = frozenset(view.array(e) for e in stores(view, view.body))

    def read(self, node: Node, moving: frozenset[str]) -> Sliding | None:
        """A loop with its windows; None for any other statement. `moving` may differ from output to output."""
        view = self.view
        loop = counting(view.expanded, node) if node.type == "for_statement" else None
        if loop is None or loop.step != "1" or loop.downward or not loop.declared or loop.first is None:
            return None
        if len(loop.bounds) != 1 or view.names(loop.first) & moving:
            return None
        if any(view.space(e) != "local" for e in stores(view, loop.body)):
            return None
        own = {d.name for n in walk(loop.body) for d in plainly_declared_in(view, n)}
        own |= {name for name, place in assigned(loop.body, view) if place.type == "identifier"}
        symbol, found = view.forms.loop(node).counter, dict[str, Window]()
        for element in view.elements(loop.body):
            window = self._window(element, loop, symbol, own | (moving - {self._axis}))
            if window is not None:
                key = squeezed(view.code(element))
                same = found.get(key, window)
                places = (*(same.places if key in found else ()), element)
                found[key] = msgspec.structs.replace(same, places=places)
        return Sliding(loop, tuple(found.values())) if found and symbol else None

    def _window(self, element: Node, loop: Counting, symbol: str, own: set[str]) -> Window | None:
        view, pointer = self.view, self.view.place(element)
        if element.type != "subscript_expression" or pointer is None or pointer.traced is None or not symbol:
            return None
        way = pointer.traced.coefficient(symbol)
        if pointer.traced.coefficient("threadIdx.x") != 1 or way not in (1, -1):
            return None
        if view.names(element) & own:
            return None
        plain = view.is_plain_enough(element) and not self._is_conditional(element, loop.body)
        if not plain or pointer.name in self._stored or not pointer.element_type:
            return None
        name = re.sub(r"\W", "", pointer.name)
        kind = " ".join(w for w in pointer.element_type.split() if w not in ("const", "volatile"))
        return Window(f"{name}Window" if "_" not in name else f"{name}_window", kind, way == 1, element, ())

    def _is_conditional(self, node: Node, body: Node) -> bool:
        """Whether not every iteration comes to an access."""
        child, outer = node, node.parent
        while outer is not None and child.id != body.id:
            condition = outer.child_by_field_name("condition")
            if outer.type in LOOPS | {"if_statement", "switch_statement", "conditional_expression"} and (
                condition is None or condition.id != child.id
            ):
                return True
            right = outer.child_by_field_name("right")
            if operator_of(outer) in ("&&", "||") and right is not None and right.id == child.id:
                return True
            child, outer = outer, outer.parent
        return False


def condition_of(view: View, loop: Counting) -> str:
    """The loop's condition as written."""
    return view.written(unwrapped(field(loop.node, "condition")))


def kind_of(view: View, loop: Counting) -> str:
    """The type of a loop's counter."""
    return view.code(field(field(loop.node, "initializer"), "type"))


def begin_of(view: View, loop: Counting) -> str:
    """The first value of a loop's counter as written."""
    return view.written(loop.first) if loop.first is not None else "0"


def ends_apart(view: View, loop: Counting, moving: frozenset[str]) -> bool:
    """Whether a loop is one that some outputs have more of than others, where `moving` differs between them."""
    plain = loop.step == "1" and not loop.downward and loop.first is not None and len(loop.bounds) == 1
    begins_alike = loop.first is not None and not view.names(loop.first) & moving
    return plain and begins_alike
