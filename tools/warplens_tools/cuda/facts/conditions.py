# SPDX-License-Identifier: Apache-2.0
"""Conditions as functions of threads, blocks, loops and parameters: right, or None."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.comparisons import FLIPPED, NEGATED
from warplens_tools.cuda.values.bindings import value_node
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import Form, Symbol
from warplens_tools.cuda.values.kernel_tree import KernelTree

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

#: What cannot hold of two things beside a comparison of them.
_EXCLUDED = {
    "==": ["!=", "<", ">"], "!=": ["=="], "<": ["==", ">", ">="], "<=": [">"], ">": ["==", "<", "<="], ">=": ["<"],
}  # fmt: skip

Values = Mapping[str, int]


class Comparison(msgspec.Struct, frozen=True):
    """`left kind right`, as plain data: what a thread meets on its way."""

    kind: str
    left: Form
    right: Form

    def holds(self, values: Values) -> bool | None:
        """Whether it holds; None where a symbol has no value."""
        a, b = self.left.evaluate(values), self.right.evaluate(values)
        return None if a is None or b is None else _COMPARE[self.kind](a, b)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Every symbol of both sides."""
        return (*self.left.symbols, *self.right.symbols)


def excludes(one: Comparison, other: Comparison) -> bool:
    """Whether no thread meets both, as they compare the same two things: `j < n` and `j >= n`."""
    kind = other.kind if (one.left, one.right) == (other.left, other.right) else ""
    if (one.left, one.right) == (other.right, other.left):
        kind = FLIPPED.get(other.kind, other.kind)
    return kind in _EXCLUDED.get(one.kind, ())


def read_comparison(reader: FormReader, node: Node, *, holds: bool) -> Comparison | None:
    """A condition without `&&` as what must be compared for it to hold, or not to; None where a side is not known."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign = node.child_by_field_name("operator")
    kind = sign.type if sign is not None else ""
    if kind in _COMPARE and left is not None and right is not None:
        a, b = reader.form(left), reader.form(right)
        return None if a is None or b is None else Comparison(kind if holds else NEGATED[kind], a, b)
    form = reader.form(node)
    return None if form is None else Comparison("!=" if holds else "==", form, Form())


class Condition(msgspec.Struct, frozen=True):
    """A condition that can be worked out where every one of its symbols has a value."""

    symbols: tuple[Symbol, ...]
    holds: Callable[[Values], bool | None]


def read_condition(expanded: KernelTree, reader: FormReader, node: Node, depth: int = 0) -> Condition | None:
    """The condition as a function of its symbols; None where a part of it is not known."""
    if depth > 20:
        return None
    if node.type in ("condition_clause", "parenthesized_expression") and node.named_child_count == 1:
        return read_condition(expanded, reader, node.named_children[0], depth + 1)
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    sign = node.child_by_field_name("operator")
    kind = sign.type if sign is not None else ""
    if kind in ("&&", "||") and left is not None and right is not None:
        return _joined(
            kind,
            read_condition(expanded, reader, left, depth + 1),
            read_condition(expanded, reader, right, depth + 1),
        )
    if kind in _COMPARE and left is not None and right is not None:
        return compared(kind, reader.form(left), reader.form(right))
    argument = node.child_by_field_name("argument")
    if kind == "!" and argument is not None:
        inner = read_condition(expanded, reader, argument, depth + 1)
        return None if inner is None else Condition(inner.symbols, lambda v: _negated(inner.holds(v)))
    form = reader.form(node)
    if form is not None:
        return Condition(form.symbols, lambda v: None if (n := form.evaluate(v)) is None else n != 0)
    return _named(expanded, reader, node, depth)


def _named(expanded: KernelTree, reader: FormReader, node: Node, depth: int) -> Condition | None:
    """`bool first = ...;`, set once."""
    if node.type != "identifier":
        return None
    binding = expanded.constants.binding(expanded.tree.code_of(node), node.start_byte)
    if binding is None or binding.value is None or not reader.set_once(binding):
        return None
    value = value_node(expanded.tree, binding)
    return read_condition(expanded, reader, value, depth + 1) if value is not None else None


def compared(kind: str, left: Form | None, right: Form | None) -> Condition | None:
    """`left kind right`, where both are known."""
    if left is None or right is None:
        return None

    def holds(values: Values) -> bool | None:
        a, b = left.evaluate(values), right.evaluate(values)
        return None if a is None or b is None else _COMPARE[kind](a, b)

    return Condition((*left.symbols, *right.symbols), holds)


def _joined(kind: str, a: Condition | None, b: Condition | None) -> Condition | None:
    if a is None or b is None:
        return None

    def holds(values: Values) -> bool | None:
        x, y = a.holds(values), b.holds(values)
        return None if x is None or y is None else (x and y if kind == "&&" else x or y)

    return Condition((*a.symbols, *b.symbols), holds)


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value
