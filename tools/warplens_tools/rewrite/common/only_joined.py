# SPDX-License-Identifier: Apache-2.0
"""Whether a kernel does nothing with its threads' elements but join them: only then may a thread join several first.

`s[t] = x * x;` behind `x = i < n ? in[i] : 0;` squares an element; of several it would square their sum.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.common.reading import View, operator_of

_KEEPS = re.compile(
    r"(?:__|\w+\.)shfl\w*|__reduce_\w+|atomic\w+|f?(?:max|min)f?|__(?:float|int|double|uint|longlong)\w*_as_\w+"
)
_WHOLE = frozenset(
    {"parenthesized_expression", "cast_expression", "conditional_expression", "comma_expression"}
)
_ENDS = frozenset({"expression_statement", "init_declarator"})


class OnlyJoined:
    """What follows the statement that ends at byte `low` and brought the element `name`.

    `sums`: elements are added, so that a factor may come before or behind; `divides`: a divisor as well.
    """

    def __init__(self, view: View, low: int, name: str, *, sums: bool, divides: bool) -> None:
        self._view, self._sums, self._divides = view, sums, divides
        self._nodes = [n for n in walk(view.body) if n.start_byte >= low]
        self._names = {name}
        while self._grown():
            pass

    def holds(self) -> bool:
        """Whether the element, and what comes of it, is copied and joined alone."""
        own = [n for n in self._nodes if n.type == "identifier" and self._view.code(n) in self._names]
        return all(self._is_plain(n) for n in own)

    def _grown(self) -> bool:
        """Adds the variables that get a value from the element."""
        count = len(self._names)
        for node in self._nodes:
            sides = {"assignment_expression": ("left", "right"), "init_declarator": ("declarator", "value")}
            if node.type not in sides:
                continue
            target, value = (node.child_by_field_name(f) for f in sides[node.type])
            if target is not None and value is not None and self._rests(value):
                self._names |= {
                    self._view.code(n) for n in walk(target) if n.type == "identifier"
                } - self._places(target)
        return len(self._names) > count

    def _places(self, target: Node) -> set[str]:
        """The names in its indices."""
        listed = [n for n in walk(target) if n.type == "subscript_argument_list"]
        return {self._view.code(n) for each in listed for n in walk(each) if n.type == "identifier"}

    def _rests(self, node: Node) -> bool:
        return any(n.type == "identifier" and self._view.code(n) in self._names for n in walk(node))

    def _is_plain(self, node: Node) -> bool:
        """Whether this use copies or joins."""
        at, outer = node, node.parent
        while outer is not None and outer.type not in _ENDS:
            if not self._passes(at, outer):
                return outer.type.endswith("declarator") or outer.type == "declaration"
            at, outer = outer, outer.parent
        return True

    def _passes(self, at: Node, outer: Node) -> bool:
        if outer.type in ("subscript_expression", "argument_list", "assignment_expression"):
            return outer.type != "assignment_expression" or self._sets(outer)
        if outer.type in _WHOLE:
            chosen = (
                outer.child_by_field_name("condition") if outer.type == "conditional_expression" else None
            )
            return chosen is None or chosen.id != at.id
        if outer.type == "pointer_expression":
            return True
        if outer.type == "call_expression":
            function = outer.child_by_field_name("function")
            return function is not None and self._keeps(self._view.code(function), at)
        return outer.type == "binary_expression" and self._is_linear(at, outer)

    def _keeps(self, function: str, listed: Node) -> bool:
        """Whether a function gives back what it gets; one of the file that gets a whole array joins it."""
        if _KEEPS.fullmatch(function):
            return True
        arrays = {a.name for a in self._view.kernel.arrays}
        given = [n for n in listed.named_children if self._rests(n)]
        return all(self._view.code(n) in arrays for n in given)

    def _sets(self, node: Node) -> bool:
        kind, right = operator_of(node), node.child_by_field_name("right")
        if kind == "=":
            return True
        return self._sums and kind == "+=" and right is not None and self._rests(right)

    def _is_linear(self, at: Node, outer: Node) -> bool:
        left, right = (outer.child_by_field_name(f) for f in ("left", "right"))
        if left is None or right is None or not self._sums:
            return False
        both, kind = self._rests(left) and self._rests(right), operator_of(outer)
        if kind == "+":
            return both
        return not both and (kind == "*" or (kind == "/" and self._divides and left.id == at.id))
