# SPDX-License-Identifier: Apache-2.0
"""Whether code comes to the same where one variable goes up by one and another down by one: rows of sliding windows.

`image[(y + R) * pitch + x + j * pitch + i]` is the same element for `y + 1` and `j - 1`. Sums and products are compared
as polynomials, all else by its form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.reading import operator_of

#: A product of names, sorted, to its factor.
_Sum = dict[tuple[str, ...], int]
#: Terms of a sum that is multiplied out.
_MOST = 64
_ONE: _Sum = {(): 1}


class Shifted:
    """Code of a tree with a step added to some variables; others are what their values say."""

    def __init__(self, tree: SourceTree, steps: Mapping[str, int], values: Mapping[str, Node]) -> None:
        self._tree, self._steps, self._values = tree, steps, values
        self._known: dict[str, _Sum] = {}

    def form(self, node: Node) -> str:
        """The code in a form that two nodes share only if they come to the same."""
        if _is_sum(node):
            return _written(self._sum(node))
        if node.type == "identifier":
            return _written(self._name(self._tree.code_of(node)))
        if not node.child_count:
            return self._tree.code_of(node)
        return f"({node.type}:{' '.join(self.form(n) for n in node.children if n.type != 'comment')})"

    def _name(self, name: str) -> _Sum:
        if name not in self._known:
            value = self._values.get(name)
            self._known[name] = {(name,): 1}
            if value is not None:
                self._known[name] = self._sum(value) if _is_sum(value) else {(self.form(value),): 1}
            if step := self._steps.get(name):
                self._known[name] = _added(self._known[name], _ONE, step)
        return self._known[name]

    def _sum(self, node: Node) -> _Sum:
        if node.type == "parenthesized_expression" and node.named_child_count == 1:
            return self._sum(node.named_children[0])
        if node.type == "identifier":
            return self._name(self._tree.code_of(node))
        code = self._tree.code_of(node)
        if node.type == "number_literal" and code.isdigit() and not (len(code) > 1 and code[0] == "0"):
            return {(): int(code)} if int(code) else {}
        if node.type == "unary_expression" and operator_of(node) == "-":
            return _added({}, self._sum(node.named_children[-1]), -1)
        if _is_sum(node) and node.type == "binary_expression":
            left, right = (self._sum(n) for n in (node.named_children[0], node.named_children[-1]))
            operator = operator_of(node)
            return (
                _product(left, right)
                if operator == "*"
                else _added(left, right, 1 if operator == "+" else -1)
            )
        return {(code if _is_sum(node) else self.form(node),): 1}


def is_same_row(
    tree: SourceTree, nodes: Iterable[Node], up: str, down: str, values: Mapping[str, Node]
) -> bool:
    """Whether nodes come to the same for `up + 1` and `down - 1`. `values` are what variables are made of that rest on
    either.
    """
    before, after = Shifted(tree, {}, values), Shifted(tree, {up: 1, down: -1}, values)
    return all(before.form(n) == after.form(n) for n in nodes)


def _is_sum(node: Node) -> bool:
    if node.type == "parenthesized_expression":
        return node.named_child_count == 1
    if node.type == "number_literal":
        return True
    if node.type == "binary_expression":
        return operator_of(node) in ("+", "-", "*")
    return node.type == "unary_expression" and operator_of(node) == "-"


def _added(left: _Sum, right: _Sum, times: int) -> _Sum:
    found = dict(left)
    for term, factor in right.items():
        found[term] = found.get(term, 0) + times * factor
    return {term: factor for term, factor in found.items() if factor}


def _product(left: _Sum, right: _Sum) -> _Sum:
    if len(left) * len(right) > _MOST:
        raise Refused("an index is too long to compare")
    found: _Sum = {}
    for one, a in left.items():
        for other, b in right.items():
            term = tuple(sorted(one + other))
            found[term] = found.get(term, 0) + a * b
    return {term: factor for term, factor in found.items() if factor}


def _written(value: _Sum) -> str:
    return "[" + "+".join(f"{factor}*{'*'.join(term)}" for term, factor in sorted(value.items())) + "]"
