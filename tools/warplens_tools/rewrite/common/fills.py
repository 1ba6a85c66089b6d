# SPDX-License-Identifier: Apache-2.0
"""Loops that change nothing where all they read is one large (or small) constant, as a tile's places outside are.

`through = a + b; if (through < best) best = through;` leaves `best`, which began at `INF` and only falls, as it is
where `a` and `b` are `INF`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from tree_sitter import Node

from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.common.declared import Declared, declared_in
from warplens_tools.rewrite.common.reading import View, field, operator_of, squeezed, statements, unwrapped

Number = int | float

_LIMITS: dict[str, Number] = {
    "INT_MAX": 2**31 - 1,
    "INT_MIN": -(2**31),
    "FLT_MAX": 3.4028234663852886e38,
    "DBL_MAX": 1.7976931348623157e308,
    "INFINITY": math.inf,
    "HUGE_VALF": math.inf,
}
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0|[1-9]\d*)")
_FLOAT = re.compile(r"(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?[fFlL]?")
_LEAST = re.compile(r"(?:std::|::)?f?minf?")
_MOST = re.compile(r"(?:std::|::)?f?maxf?")
#: `<` of the new value and the old one is a minimum.
_FALLS = {"<": True, "<=": True, ">": False, ">=": False}
_FURTHEST = 2**31


class Fill:
    """What a loop's body does where its operands, at `places`, are constants.

    `first` are the variables that it may lower or raise, with what they begin at.
    """

    def __init__(self, view: View, places: Mapping[int, Node], first: Sequence[Declared]) -> None:
        self.view, self.places = view, places
        self.first = {d.name: d for d in first}
        self.known: dict[str, Number | None] = {}

    def changes_nothing(self, body: Node) -> bool:
        """Whether the body is a minimum or a maximum that such operands leave alone."""
        folds = 0
        for node in statements(body):
            if node.type == "declaration":
                for one in declared_in(self.view, node):
                    self.known[one.name] = self._of(one.value) if one.value is not None else None
                continue
            if not self._keeps(node):
                return False
            folds += 1
        return folds > 0

    def _keeps(self, node: Node) -> bool:
        found = self._chosen(node) if node.type == "if_statement" else self._folded(node)
        if found is None:
            return False
        name, value, falls = found
        first = self.first.get(name)
        begun, new = self._of(first.value) if first is not None else None, self._of(value)
        if first is None or begun is None or new is None:
            return False
        return new >= begun if falls else new <= begun

    def _chosen(self, node: Node) -> tuple[str, Node, bool] | None:
        """`if (value < best) best = value;`: the variable, the value, and whether it falls."""
        inside = statements(field(node, "consequence"))
        if node.child_by_field_name("alternative") is not None or len(inside) != 1:
            return None
        stored = self._assignment(inside[0])
        if stored is None:
            return None
        return self._compared(unwrapped(field(node, "condition")), *stored)

    def _folded(self, node: Node) -> tuple[str, Node, bool] | None:
        """`best = min(best, value);`, or the same by a choice."""
        stored = self._assignment(node)
        if stored is None:
            return None
        name, right = stored[0], unwrapped(stored[1])
        if right.type == "conditional_expression":
            value, other = unwrapped(field(right, "consequence")), unwrapped(field(right, "alternative"))
            if self.view.code(other) != name:
                return None
            return self._compared(unwrapped(field(right, "condition")), name, value)
        if right.type != "call_expression":
            return None
        function, given = self.view.code(field(right, "function")), field(right, "arguments").named_children
        others = [g for g in given if self.view.code(unwrapped(g)) != name]
        if len(given) != 2 or len(others) != 1:
            return None
        if not (_LEAST.fullmatch(function) or _MOST.fullmatch(function)):
            return None
        return name, others[0], _LEAST.fullmatch(function) is not None

    def _assignment(self, node: Node) -> tuple[str, Node] | None:
        inner = node.named_children[0] if node.type == "expression_statement" else node
        if inner.type != "assignment_expression" or operator_of(inner) != "=":
            return None
        return self.view.code(field(inner, "left")), field(inner, "right")

    def _compared(self, condition: Node, name: str, value: Node) -> tuple[str, Node, bool] | None:
        if condition.type != "binary_expression" or operator_of(condition) not in _FALLS:
            return None
        left, right = (unwrapped(field(condition, side)) for side in ("left", "right"))
        falls, wanted = _FALLS[operator_of(condition)], squeezed(self.view.code(unwrapped(value)))
        if self.view.code(left) == name:
            left, right, falls = right, left, not falls
        same = self.view.code(right) == name and squeezed(self.view.code(left)) == wanted
        return (name, value, falls) if same else None

    def _of(self, node: Node | None) -> Number | None:
        """The number that an expression is; None where it is none, or leaves the range of an `int`."""
        found = self._number(unwrapped(node)) if node is not None else None
        if isinstance(found, int) and not -_FURTHEST <= found < _FURTHEST:
            return None
        return None if found is not None and math.isnan(found) else found

    def _number(self, node: Node) -> Number | None:
        if node.id in self.places:
            return self._of(self.places[node.id])
        code = self.view.code(node)
        if node.type == "identifier" and code in self.known:
            return self.known[code]
        constant = self.view.value(node)
        if constant is not None:
            return constant
        if node.type == "number_literal":
            if _INTEGER.fullmatch(code):
                return int(code, 0)
            return float(code.rstrip("fFlL")) if _FLOAT.fullmatch(code) else None
        if node.type == "identifier":
            return _LIMITS.get(code)
        return self._worked_out(node)

    def _worked_out(self, node: Node) -> Number | None:
        if node.type == "cast_expression":
            value = self._of(field(node, "value"))
            exact = isinstance(value, int) or integer_type(self.view.code(field(node, "type"))) is None
            return value if exact else None
        if node.type == "unary_expression" and operator_of(node) == "-":
            value = self._of(field(node, "argument"))
            return -value if value is not None else None
        if node.type == "binary_expression" and operator_of(node) in ("+", "-"):
            left, right = self._of(field(node, "left")), self._of(field(node, "right"))
            if left is None or right is None:
                return None
            return left + right if operator_of(node) == "+" else left - right
        if node.type == "call_expression":
            given = [self._of(g) for g in field(node, "arguments").named_children]
            named = self.view.code(field(node, "function"))
            plain = [g for g in given if g is not None]
            if len(plain) == len(given) == 2 and (_LEAST.fullmatch(named) or _MOST.fullmatch(named)):
                return min(plain) if _LEAST.fullmatch(named) else max(plain)
        return None
