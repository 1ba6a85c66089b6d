# SPDX-License-Identifier: Apache-2.0
"""Tree-sitter queries, asked without compiling them where that is sooner.

The library takes as long to compile a query for this grammar as a walk over some ten thousand nodes, and most processes
look at a file or two: they walk. One that goes on compiles what it has walked that far for.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator, Sequence

import msgspec
from tree_sitter import Node, Query, QueryCursor

from warplens_tools.cuda.syntax.recovery import LANGUAGE

#: Nodes walked for one query after which compiling it would have been sooner.
_WORTH_COMPILING = 10_000
_TOKEN = re.compile(r'\s*([()\[\]]|@\w+|\w+:|"[^"]*"|\w+)')


class _Shape(msgspec.Struct, frozen=True):
    """A kind of node, and what it has to hold."""

    #: "_" for any that is named.
    kind: str
    named: bool
    #: Each with the field it stands in, "" for none; one of the alternatives has to stand there.
    holds: tuple[tuple[str, tuple[_Shape, ...]], ...]
    #: What it is captured as, if at all.
    captured: str

    def found(self, node: Node) -> list[tuple[str, Node]] | None:
        """What of `node` is captured; None where it is not of this shape."""
        if node.is_named != self.named or self.kind not in ("_", node.type):
            return None
        captures = [(self.captured, node)] if self.captured else []
        for field, shapes in self.holds:
            inside = node.children_by_field_name(field) if field else node.named_children
            matches = [m for child in inside for shape in shapes if (m := shape.found(child)) is not None]
            if not matches:
                return None
            captures += (capture for match in matches for capture in match)
        return captures


class Pattern:
    """One query. Its answers are the same, walked or compiled."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._walked = 0
        self._query: Query | None = None
        self._compiling = threading.Lock()
        #: By their kind; empty where the query says more than they can.
        self._shapes: dict[str, list[_Shape]] = {}
        for shape in _read(text):
            self._shapes.setdefault(shape.kind, []).append(shape)

    def captures(self, node: Node) -> dict[str, list[Node]]:
        """What is captured in `node` and below it, by name, in text order."""
        self._walked += node.descendant_count
        walked = self._shapes and self._query is None and self._walked <= _WORTH_COMPILING
        found = self._found(node) if walked else QueryCursor(self._compiled()).captures(node)
        return {name: sorted(nodes, key=_order) for name, nodes in found.items()}

    def _found(self, node: Node) -> dict[str, list[Node]]:
        found: dict[str, dict[int, Node]] = {}
        for below in walk(node):
            for shape in self._shapes.get(below.type, ()):
                for name, captured in shape.found(below) or ():
                    found.setdefault(name, {})[captured.id] = captured
        return {name: list(nodes.values()) for name, nodes in found.items()}

    def _compiled(self) -> Query:
        with self._compiling:
            if self._query is None:
                self._query = Query(LANGUAGE, self._text)
            return self._query


@functools.cache
def pattern_of(text: str) -> Pattern:
    """The pattern that a query's text says."""
    return Pattern(text)


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, in text order, without recursion."""
    # a cursor takes half the time of lists of children
    cursor = node.walk()
    while True:
        found = cursor.node
        if found is None:
            return
        yield found
        if not cursor.goto_first_child():
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return


def _order(node: Node) -> tuple[int, int]:
    return node.start_byte, -node.end_byte


def _read(text: str) -> tuple[_Shape, ...]:
    """The shapes of a query for kinds, without quantifiers, anchors and predicates; none of any other."""
    tokens = _TOKEN.findall(text)
    if _TOKEN.sub("", text).strip():
        return ()
    shapes: list[_Shape] = []
    while tokens:
        shapes += _item(tokens)
    return () if any(shape.kind == "_" for shape in shapes) else tuple(shapes)


def _item(tokens: list[str]) -> Sequence[_Shape]:
    """The alternatives that the next tokens say; they are taken from the list."""
    first = tokens.pop(0)
    if first == "[":
        shapes = [shape for one in _items(tokens, "]") for shape in one[1]]
    elif first == "(":
        shapes = [_Shape(tokens.pop(0), True, tuple(_items(tokens, ")")), "")]
    else:
        shapes = [_Shape(first.strip('"'), False, (), "")]
    if tokens and tokens[0].startswith("@"):
        name = tokens.pop(0)[1:]
        shapes = [msgspec.structs.replace(shape, captured=name) for shape in shapes]
    return shapes


def _items(tokens: list[str], end: str) -> Iterator[tuple[str, tuple[_Shape, ...]]]:
    while tokens[0] != end:
        field = tokens.pop(0)[:-1] if tokens[0].endswith(":") else ""
        yield field, tuple(_item(tokens))
    tokens.pop(0)
