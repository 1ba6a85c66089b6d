# SPDX-License-Identifier: Apache-2.0
"""Columns that neighbouring threads read and write side by side: which elements, and where whole vectors begin."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.outputs import Axis, Outputs
from warplens_tools.rewrite.common.reading import View, assigned, field, operator_of, squeezed, unwrapped

WIDEST = 16
_VECTORS = {("float", 4): "float4", ("float", 2): "float2", ("int", 4): "int4", ("double", 2): "double2"}
_BY_BYTES = {16: "uint4", 8: "uint2", 4: "unsigned int"}
_NAME = re.compile(r"[A-Za-z_]\w*")


def vector_type(element: str, size: int, count: int) -> str | None:
    """The type of `count` elements of `size` bytes; None where there is none."""
    return _VECTORS.get((element, count)) or _BY_BYTES.get(size * count)


class ColumnReader:
    """The elements of a kernel's work that rest on its column alone along `x`."""

    def __init__(self, view: View, outputs: Outputs, axis: Axis) -> None:
        self.view, self.outputs, self.axis = view, outputs, axis

    def columns(self, work: Node) -> Iterator[tuple[Node, tuple[str, ...]]]:
        """The elements of a loop that neighbouring threads read side by side."""
        view = self.view
        if work.type != "for_statement":
            return
        for element in view.elements(work):
            pointer = view.place(element)
            offset = pointer.traced if pointer is not None else None
            rests = self.axis.name in self.outputs.resting(view.names(element))
            if pointer is None or not rests:
                continue
            if element.type != "subscript_expression" or offset is None or pointer.space != "global":
                raise Refused("data say what of a column is read")
            index = field(element, "indices").named_children[0]
            checks = self._checks(index) if offset.coefficient("threadIdx.x") == 1 else None
            size = type_bytes(view.concrete(pointer.element_type))
            if (
                checks is None
                or size is None
                or size > 8
                or not view.is_plain(element)
                or self._is_guarded(element, work)
            ):
                raise Refused("columns are not read side by side in whole vectors")
            yield element, checks

    def stored(self, node: Node, count: int) -> Iterator[tuple[Node, tuple[str, ...], str]]:
        """The element that a statement stores side by side with its neighbours, and the type of a vector of them."""
        view = self.view
        inner = (
            node.named_children[0] if node.type == "expression_statement" and node.named_child_count else node
        )
        left = inner.child_by_field_name("left") if inner.type == "assignment_expression" else None
        if (
            left is None
            or operator_of(inner) != "="
            or left.type != "subscript_expression"
            or not view.is_plain(left)
        ):
            return
        pointer, index = view.place(left), field(left, "indices").named_children[0]
        offset = pointer.traced if pointer is not None else None
        if (
            pointer is None
            or offset is None
            or pointer.space != "global"
            or offset.coefficient("threadIdx.x") != 1
        ):
            return
        checks, size = self._checks(index), type_bytes(view.concrete(pointer.element_type)) or 0
        wide = vector_type(pointer.element_type, size, count)
        if checks is not None and wide is not None:
            yield left, checks, wide

    def _is_guarded(self, node: Node, work: Node) -> bool:
        """Whether a condition says that an element is read."""
        outer = node.parent
        while outer is not None and outer.id != work.id:
            if outer.type in ("if_statement", "conditional_expression", "while_statement", "do_statement"):
                return True
            outer = outer.parent
        return False

    def _checks(self, index: Node) -> tuple[str, ...] | None:
        """What the vector's length has to divide so that an index begins at a whole vector; None where nothing says."""
        found, own = set[str](), 0
        for term in _terms(unwrapped(index)):
            if squeezed(self.view.code(term)) == self.axis.name:
                own += 1
                continue
            factor = next((f for f in _factors(term) if self._is_kept(f)), None)
            if factor is None:
                return None
            found.add(self.view.code(factor))
        return tuple(sorted(found)) if own == 1 else None

    def _is_kept(self, node: Node) -> bool:
        """Whether an expression is a number or a name of which nothing changes in the kernel."""
        code, view = self.view.code(node), self.view
        value = view.value(node)
        if value is not None:
            return value % WIDEST == 0 or _NAME.fullmatch(code) is not None
        return code in view.parameters and code not in {name for name, _ in assigned(view.body, view)}


def _terms(node: Node) -> Iterator[Node]:
    """What an index adds up."""
    node = unwrapped(node)
    if node.type == "binary_expression" and operator_of(node) == "+":
        yield from _terms(field(node, "left"))
        yield from _terms(field(node, "right"))
    else:
        yield node


def _factors(node: Node) -> Iterator[Node]:
    """What a term multiplies."""
    node = unwrapped(node)
    if node.type == "binary_expression" and operator_of(node) == "*":
        yield from _factors(field(node, "left"))
        yield from _factors(field(node, "right"))
    elif node.type == "cast_expression":
        yield from _factors(field(node, "value"))
    else:
        yield node
