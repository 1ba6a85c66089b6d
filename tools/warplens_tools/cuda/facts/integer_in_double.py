# SPDX-License-Identifier: Apache-2.0
"""Integers that are worked out in double precision and turned back: `(int)(i * 0.75 + 0.5)`, `ceil(n / 2.0)`."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.arithmetic_types import TypeReader, is_double_literal
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.text import Span

_ROUNDS = frozenset({"ceil", "floor", "round", "rint", "trunc"})
_DOUBLE = re.compile(r"\d\.\d*|\.\d|\bceil\b|\bfloor\b")


class IntegerInDouble(msgspec.Struct, frozen=True):
    """An expression over integers alone that is double, and becomes an integer again."""

    span: Span
    looped: bool


def integers_in_double(tree: SourceTree, kernel: Kernel) -> tuple[IntegerInDouble, ...]:
    """Every such expression of the kernel's own text, the outermost of each, in text order."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None or not _DOUBLE.search(expanded.tree.code_of(expanded.function.body)):
        return ()
    forms = FormReader(expanded)
    reader = _Reader(expanded, TypeReader(forms, PointerReader(kernel, forms)))
    found: list[Node] = []
    for node in walk(expanded.function.body):
        value = reader.converted(node)
        if value is not None and not any(o.start_byte <= value.start_byte < o.end_byte for o in found):
            found.append(value)
    return tuple(IntegerInDouble(expanded.tree.span(n), bool(loops_around(expanded.tree, n))) for n in found)


class _Reader:
    def __init__(self, expanded: KernelTree, types: TypeReader) -> None:
        self.tree, self.types = expanded.tree, types

    def converted(self, node: Node) -> Node | None:
        """The double value over integers that `node` makes an integer of; None where it makes none."""
        value = self._cast(node) or self._set(node) or self._rounded(node)
        return value if value is not None and self._is_double_over_integers(value) else None

    def _cast(self, node: Node) -> Node | None:
        """(int)e, int(e), static_cast<int>(e)"""
        if node.type == "cast_expression":
            written = node.child_by_field_name("type")
            return (
                node.child_by_field_name("value")
                if written is not None and self._is_integer(written)
                else None
            )
        function = node.child_by_field_name("function") if node.type == "call_expression" else None
        listed = node.child_by_field_name("arguments")
        if function is None or listed is None or listed.named_child_count != 1:
            return None
        name = re.sub(r"^static_cast\s*<(.*)>$", r"\1", self.tree.code_of(function))
        return listed.named_children[0] if integer_type(name) is not None else None

    def _is_integer(self, written: Node) -> bool:
        return integer_type(self.tree.code_of(written)) is not None

    def _set(self, node: Node) -> Node | None:
        """int i = e; i = e;"""
        if node.type == "assignment_expression":
            left = node.child_by_field_name("left")
            is_integer = left is not None and left.type == "identifier" and self.types.type(left) == "int"
            return node.child_by_field_name("right") if is_integer else None
        if node.type != "init_declarator" or node.parent is None:
            return None
        written = node.parent.child_by_field_name("type")
        return (
            node.child_by_field_name("value") if written is not None and self._is_integer(written) else None
        )

    def _rounded(self, node: Node) -> Node | None:
        """ceil(e), floor(e)"""
        function = node.child_by_field_name("function") if node.type == "call_expression" else None
        named = function is not None and self.tree.code_of(function).removeprefix("std::") in _ROUNDS
        return node if named else None

    def _is_double_over_integers(self, value: Node) -> bool:
        while value.type == "parenthesized_expression" and value.named_child_count == 1:
            value = value.named_children[0]
        if value.type not in ("binary_expression", "call_expression") or self.types.type(value) != "double":
            return False
        return self._has_variable(value) and all(self._is_whole(n) for n in self._leaves(value))

    def _has_variable(self, value: Node) -> bool:
        return any(n.type != "number_literal" for n in self._leaves(value))

    def _leaves(self, value: Node) -> list[Node]:
        """Operands of a value's arithmetic, past parentheses and functions that round."""
        if value.type == "binary_expression":
            sides = (value.child_by_field_name("left"), value.child_by_field_name("right"))
            return [leaf for side in sides if side is not None for leaf in self._leaves(side)]
        if value.type == "parenthesized_expression" and value.named_child_count == 1:
            return self._leaves(value.named_children[0])
        listed = value.child_by_field_name("arguments") if self._rounded(value) is not None else None
        if listed is not None:
            return [leaf for argument in listed.named_children for leaf in self._leaves(argument)]
        return [value]

    def _is_whole(self, leaf: Node) -> bool:
        if leaf.type == "number_literal":
            text = self.tree.code_of(leaf)
            return is_double_literal(text) or self.types.type(leaf) == "int"
        return leaf.type in ("identifier", "field_expression") and self.types.type(leaf) == "int"
