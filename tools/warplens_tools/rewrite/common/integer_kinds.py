# SPDX-License-Identifier: Apache-2.0
"""The type that arithmetic of integers is done in, by the types of all its operands."""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.arithmetic_types import written_before
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.rewrite.common.declared import unqualified
from warplens_tools.rewrite.common.reading import View, field, operator_of, squeezed

_THREADS = ("threadIdx.", "blockIdx.", "blockDim.", "gridDim.")
_NAMES = {(True, 4): "int", (False, 4): "unsigned int", (True, 8): "long long", (False, 8): "size_t"}


def kind_of(view: View, node: Node) -> str | None:
    """The type that an expression is computed in; None where the file does not tell."""
    signed, width = True, 4
    stack = [node]
    while stack:
        one = stack.pop()
        kind = ""
        if one.type in ("binary_expression", "parenthesized_expression", "unary_expression"):
            stack += one.named_children
            continue
        if one.type == "cast_expression":
            kind = view.code(field(one, "type"))
        elif one.type == "number_literal":
            kind = "int" if view.code(one).isdigit() else "?"
        elif one.type == "field_expression":
            kind = "unsigned int" if squeezed(view.code(one)).startswith(_THREADS) else _member(view, one)
        elif one.type == "identifier":
            macro = view.file.macros.get(view.code(one))
            kind = "int" if macro is not None and macro.body.strip().isdigit() else _declared(view, one)
        elif one.type == "subscript_expression":
            kind = view.element(one)
        known = (
            integer_type(view.concrete(unqualified(kind))) if kind and "auto" not in kind.split() else None
        )
        if known is None:
            return None
        if known.bytes > width:
            signed, width = known.signed, known.bytes
        elif known.bytes == width:
            signed = signed and known.signed
    return _NAMES.get((signed, width))


def _declared(view: View, name: Node) -> str:
    """The type that a variable is declared with; "" where the file does not tell."""
    binding = view.expanded.constants.binding(view.code(name), name.start_byte)
    known = next((p.type for p in view.kernel.parameters if p.name == view.code(name) and not p.pointer), "")
    return written_before(view.tree, binding).strip() if binding is not None and not known else known


def _member(view: View, node: Node) -> str:
    """The type of a member of a structure that is passed by value or declared."""
    base = field(node, "argument")
    if base.type != "identifier" or operator_of(node) != ".":
        return ""
    layouts = layouts_of(view.tree)
    found = layouts.member(layouts.plain(unqualified(_declared(view, base))), view.code(field(node, "field")))
    return found.type if found is not None and not found.pointer else ""
