# SPDX-License-Identifier: Apache-2.0
"""Elements of a matrix that different iterations of a loop cannot both mean: told apart by a row or a column.

A factorization in place writes `a[i * n + j]` and reads `a[k * n + j]` and `a[i * n + k]`, with `i` and `j` beyond `k`.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.values.kernel_tree import KernelTree
from warplens_tools.cuda.values.writes import changes
from warplens_tools.rewrite.common.counting import Counting, counting

_WORD = re.compile(r"[A-Za-z_]\w*")
_BEYOND = re.compile(r"(\w+)\+[1-9]\d*|[1-9]\d*\+(\w+)")
#: Bounds of variables by variables are followed this far.
_DEEP = 4


class _Place(msgspec.Struct, frozen=True):
    """An element by its coordinates, the slowest first, and how many values each but the first has."""

    array: str
    coordinates: tuple[str, ...]
    pitches: tuple[str, ...]


def apart(expanded: KernelTree, given: Collection[str], loop: Counting, one: Node, other: Node) -> bool:
    """Whether two accesses inside a loop go to different elements wherever their iterations differ; `given` are the
    numbers that the kernel is given.
    """
    reader = _Reader(expanded, given)
    first, second = reader.place(one), reader.place(other)
    if first is None or second is None or not loop.declared:
        return False
    if (first.array, first.pitches) != (second.array, second.pitches):
        return False
    pairs = list(zip(first.coordinates, second.coordinates, strict=True))
    within = zip(pairs[1:], first.pitches, strict=True)
    if any(
        not (reader.below(one, a, pitch) and reader.below(other, b, pitch))
        for (a, b), pitch in within
        if pitch
    ):
        return False
    return any(a == b == loop.variable or reader.ordered(loop, (one, a), (other, b)) for a, b in pairs)


class _Reader:
    """Indices, and what the loops around them say of their variables."""

    def __init__(self, expanded: KernelTree, given: Collection[str]) -> None:
        self.expanded, self.tree, self.given = expanded, expanded.tree, given

    def place(self, node: Node) -> _Place | None:
        """The coordinates of `a[i * n + j]` or `a[i][j]`; None for anything else."""
        coordinates, pitches = list[str](), list[str]()
        while node.type == "subscript_expression":
            index = self._index(node)
            base = node.child_by_field_name("argument")
            if index is None or base is None:
                return None
            inner, widths = self._split(index)
            coordinates, pitches = inner + coordinates, [*widths, *([""] if coordinates else []), *pitches]
            node = base
        if node.type != "identifier":
            return None
        return _Place(self.tree.code_of(node), tuple(coordinates), tuple(pitches))

    def _index(self, node: Node) -> Node | None:
        listed = node.child_by_field_name("indices")
        return listed.named_children[0] if listed is not None and listed.named_child_count == 1 else None

    def _split(self, index: Node) -> tuple[list[str], list[str]]:
        """The coordinates that an index is made of, and the extents between them."""
        index = _bare(index)
        left, right = (index.child_by_field_name(n) for n in ("left", "right"))
        if index.type != "binary_expression" or self._operator(index) != "+" or left is None or right is None:
            return [self._code(index)], []
        for row, column in ((left, right), (right, left)):
            row = _bare(row)
            factors = [row.child_by_field_name(n) for n in ("left", "right")]
            if row.type == "binary_expression" and self._operator(row) == "*" and None not in factors:
                rows, by = factors
                assert rows is not None and by is not None
                inner, pitches = self._split(rows)
                return [*inner, self._code(column)], [*pitches, self._code(by)]
        return [self._code(index)], []

    def _operator(self, node: Node) -> str:
        operator = node.child_by_field_name("operator")
        return operator.type if operator is not None else ""

    def _code(self, node: Node) -> str:
        return "".join(self.tree.code_of(_bare(node)).split())

    def _loop_of(self, at: Node, name: str) -> Counting | None:
        """The loop around a node that counts a variable up."""
        outer = at.parent
        while outer is not None and outer.id != self.expanded.function.body.id:
            found = counting(self.expanded, outer) if outer.type == "for_statement" else None
            if found is not None and found.variable == name:
                return found if found.declared and not found.downward and found.first is not None else None
            outer = outer.parent
        return None

    def below(self, at: Node, name: str, limit: str, deep: int = 0) -> bool:
        """Whether a loop's variable lies from zero up to below a limit."""
        loop = self._loop_of(at, name)
        if loop is None or deep > _DEEP or not self._natural(at, name):
            return False
        for bound in loop.bounds:
            written, strict = self._code(bound), self._is_strict(loop)
            if written == limit and strict:
                return True
            # up to a variable that lies below the limit itself
            if _WORD.fullmatch(written) and self.below(loop.node, written, limit, deep + 1):
                return True
        return False

    def _is_strict(self, loop: Counting) -> bool:
        condition = loop.node.child_by_field_name("condition")
        return condition is not None and "=" not in self.tree.code_of(condition)

    def _natural(self, at: Node, name: str, deep: int = 0) -> bool:
        """Whether a loop's variable is never below zero."""
        loop = self._loop_of(at, name)
        if loop is None or loop.first is None or deep > _DEEP:
            return False
        first = self._code(loop.first)
        beyond = _BEYOND.fullmatch(first)
        other = (beyond[1] or beyond[2]) if beyond is not None else first
        return first.isdigit() or self._natural(loop.node, other, deep + 1)

    def ordered(self, loop: Counting, one: tuple[Node, str], other: tuple[Node, str]) -> bool:
        """Whether one of two variables lies beyond the other in all iterations, or before it, and that one stays."""
        return (self._stays(loop, other[1]) and self._beyond(*one, other[1])) or (
            self._stays(loop, one[1]) and self._beyond(*other, one[1])
        )

    def _stays(self, loop: Counting, name: str) -> bool:
        """Whether a variable is that of a loop around this one, or a number that the kernel is given and keeps."""
        code = self.tree.code_of(self.expanded.function.body)
        kept = name in self.given and not changes(self.tree, code, name)
        return kept or self._loop_of(loop.node, name) is not None

    def _beyond(self, at: Node, name: str, other: str) -> bool:
        loop = self._loop_of(at, name)
        if loop is None or loop.first is None:
            return False
        found = _BEYOND.fullmatch(self._code(loop.first))
        if found is not None and (found[1] or found[2]) == other:
            return True
        return self._is_strict(loop) and any(self._code(bound) == other for bound in loop.bounds)


def _bare(node: Node) -> Node:
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    return node
