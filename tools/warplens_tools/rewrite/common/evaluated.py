# SPDX-License-Identifier: Apache-2.0
"""Integers of a kernel at random points: two expressions that agree at all of them are taken for the same."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tree_sitter import Node

from warplens_tools.rewrite.common.reading import View, field, operator_of, squeezed, unwrapped

#: Two different quotients or remainders of products agree at all of these by chance once in a billion.
POINTS = 6
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)[uUlL]*")
_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
Values = tuple[int, ...]


class Evaluator:
    """Values of expressions at a few random points, where every name that is not given has a value of its own.

    Sizes are 3 to 40, a given index much larger.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self._known: dict[str, Values | None] = {}
        self._draw = random.Random(0)

    def index(self) -> Values:
        """Values for a number that has no bound."""
        return tuple(self._draw.randrange(10**8, 10**9) for _ in range(POINTS))

    def give(self, name: str, values: Values | None) -> None:
        """What a name is from here on; None for what is not known."""
        self._known[name] = values

    def of_name(self, name: str) -> Values | None:
        """What a name is."""
        if name not in self._known:
            self._known[name] = tuple(self._draw.randrange(3, 40) for _ in range(POINTS))
        return self._known[name]

    def of(self, node: Node) -> Values | None:
        """The values of an expression; None for one that is not understood."""
        node = unwrapped(node)
        constant = self.view.value(node)
        if constant is not None:
            return (constant,) * POINTS
        if node.type == "cast_expression":
            return self.of(field(node, "value"))
        if node.type == "identifier":
            return self.of_name(self.view.code(node))
        if node.type == "field_expression" and re.fullmatch(r"[\w.]+", squeezed(self.view.code(node))):
            return self.of_name(squeezed(self.view.code(node)))
        if node.type == "number_literal":
            found = _NUMBER.fullmatch(self.view.code(node))
            return (int(found[1], 0),) * POINTS if found else None
        if node.type != "binary_expression":
            return None
        return self.combined(operator_of(node), self.of(field(node, "left")), self.of(field(node, "right")))

    def combined(self, kind: str, left: Values | None, right: Values | None) -> Values | None:
        """`left kind right`; None where that is not understood, or not the same on the card."""
        work = _OPERATORS.get(kind)
        if work is None or left is None or right is None:
            return None
        if kind in "/%" and (min(left) < 0 or min(right) <= 0):
            return None
        return tuple(work(a, b) for a, b in zip(left, right, strict=True))
