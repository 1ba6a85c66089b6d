# SPDX-License-Identifier: Apache-2.0
"""Which names of a kernel differ between the lanes of a warp, and how many values an index can take."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.bindings import value_node
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.pointers import PointerReader

_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)?(?:[-+*/%&|^]|<<|>>)?=(?!=)(?=(\s*\{?[^;{}]*))")
_WORD = re.compile(r"[A-Za-z_]\w*")
_LANES = frozenset({"threadIdx", "laneid", "thread_rank"})
_MAX_DEPTH = 16


def lane_names(code: str) -> frozenset[str]:
    """Names in a kernel's body that may differ between lanes: by data flow from `threadIdx`, no control flow."""
    assigned = [(name, set(_WORD.findall(value))) for name, value in _ASSIGNED.findall(code)]
    varying = set(_LANES)
    grown = True
    while grown:
        grown = False
        for name, used in assigned:
            if name not in varying and used & varying:
                varying.add(name)
                grown = True
    return frozenset(varying)


def mentions_lanes(text: str, varying: frozenset[str]) -> bool:
    """Whether an expression's text mentions any of the names."""
    return bool(set(_WORD.findall(text)) & varying)


class Bounds:
    """How many different values an index expression can take, from types, `%`, `&` and `min`."""

    def __init__(self, reader: FormReader, pointers: PointerReader) -> None:
        self.reader, self.pointers, self.tree = reader, pointers, reader.tree

    def values(self, node: Node | None, depth: int = 0) -> int | None:
        """An upper bound of the number of values; None where nothing bounds them."""
        if node is None or depth > _MAX_DEPTH:
            return None
        if node.type in ("parenthesized_expression", "cast_expression"):
            return self._through(node, depth)
        if node.type == "binary_expression":
            return self._binary(node, depth)
        if node.type in ("subscript_expression", "pointer_expression"):
            return self._loaded(node)
        if node.type == "call_expression":
            return self._call(node, depth)
        if node.type == "identifier":
            return self._named(node, depth)
        return 1 if node.type == "number_literal" else None

    def _constant(self, node: Node | None) -> int | None:
        form = self.reader.form(node)
        return form.value if form is not None else None

    def _through(self, node: Node, depth: int) -> int | None:
        inner = node.child_by_field_name("value") or (node.named_children[0] if node.named_children else None)
        written = node.child_by_field_name("type")
        narrow = _values_of_type(self.tree.code_of(written)) if written is not None else None
        return _least(narrow, self.values(inner, depth + 1))

    def _binary(self, node: Node, depth: int) -> int | None:
        operator = node.child_by_field_name("operator")
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        kind = operator.type if operator is not None else ""
        constant = self._constant(right)
        below = self.values(left, depth + 1)
        if kind == "%" and constant:
            return _least(abs(constant), below)
        if kind == "&" and constant is not None and constant >= 0:
            return _least(constant + 1, below)
        if kind in (">>", "/") and constant and below is not None:
            return max(1, below >> constant if kind == ">>" else below // constant)
        if kind in ("+", "-", "*", "<<", "^", "|"):
            other = self.values(right, depth + 1) or (1 if self._is_uniform(right) else None)
            first = below or (1 if self._is_uniform(left) else None)
            return first * other if first is not None and other is not None else None
        return None

    def _is_uniform(self, node: Node | None) -> bool:
        form = self.reader.form(node)
        return form is not None and form.uniform

    def _loaded(self, node: Node) -> int | None:
        place = (
            self.pointers.element(node)
            if node.type == "subscript_expression"
            else self.pointers.pointer(node.child_by_field_name("argument"))
        )
        return _values_of_type(place.element_type) if place is not None else None

    def _call(self, node: Node, depth: int) -> int | None:
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or listed is None:
            return None
        name, arguments = self.tree.code_of(function), listed.named_children
        if name.removeprefix("std::") == "min" and len(arguments) == 2:
            constants = [c for a in arguments if (c := self._constant(a)) is not None]
            return min(constants) + 1 if constants else None
        is_cast = re.fullmatch(r"static_cast\s*<.*>|int|unsigned|__ldg", name, re.DOTALL)
        if not is_cast or len(arguments) != 1:
            return None
        narrow = _values_of_type(name.partition("<")[2].removesuffix(">").strip())
        return _least(narrow, self.values(arguments[0], depth + 1))

    def _named(self, node: Node, depth: int) -> int | None:
        binding = self.reader.kernel.constants.binding(self.tree.code_of(node), node.start_byte)
        if binding is None or binding.value is None or not self.reader.set_once(binding):
            return None
        declared = self.tree.masked.code[binding.declaration[0] : binding.start].decode("ascii")
        narrow = _values_of_type(" ".join(w for w in declared.split() if w != "const"))
        return _least(narrow, self.values(value_node(self.tree, binding), depth + 1))


def _values_of_type(name: str) -> int | None:
    known = integer_type(name)
    return known.values if known is not None and known.is_narrow else None


def _least(*bounds: int | None) -> int | None:
    return min((b for b in bounds if b is not None), default=None)
