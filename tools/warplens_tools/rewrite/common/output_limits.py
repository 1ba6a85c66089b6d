# SPDX-License-Identifier: Apache-2.0
"""What a kernel's guards say of the numbers of its outputs: `row < M`, `i + window <= n`, `col <= row`."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.comparisons import FLIPPED, NEGATED
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.common.declared import unqualified
from warplens_tools.rewrite.common.reading import WORD, View, field, operator_of, statements, unwrapped


def returns(node: Node) -> bool:
    """Whether a condition's node stands in `if (…) return;`, so that it is negated."""
    while node.type != "if_statement" and node.parent is not None:
        node = node.parent
    consequence = node.child_by_field_name("consequence")
    inside = statements(consequence) if consequence is not None else []
    return len(inside) == 1 and inside[0].type == "return_statement"


def order_of(view: View, node: Node, axes: set[str]) -> list[tuple[str, str]]:
    """("col", "row") of `col <= row`, a triangle: what limits the row limits the column."""
    if node.type != "binary_expression":
        return []
    kind = operator_of(node)
    kind = NEGATED.get(kind, "") if returns(node) else kind
    sides = [view.code(unwrapped(field(node, name))) for name in ("left", "right")]
    if kind not in FLIPPED or not set(sides) <= axes:
        return []
    return [(sides[0], sides[1]) if kind in ("<", "<=") else (sides[1], sides[0])]


def negation(view: View, node: Node) -> str:
    """The opposite of a condition, as written."""
    kind = operator_of(node)
    if node.type == "binary_expression" and kind in NEGATED:
        left, right = view.written(field(node, "left")), view.written(field(node, "right"))
        return f"{left} {NEGATED[kind]} {right}"
    return f"!({view.written(node)})"


def limit_by(view: View, node: Node, axes: set[str]) -> tuple[str, str] | None:
    """("row", "M") of `row < M`, and of `row >= M` before a return."""
    if node.type != "binary_expression":
        return None
    left, right, kind = field(node, "left"), field(node, "right"), operator_of(node)
    if view.code(unwrapped(right)) in axes:
        left, right, kind = right, left, FLIPPED.get(kind, "")
    left, shift = _shifted(view, unwrapped(left), axes)
    name = view.code(left)
    kind = NEGATED.get(kind, "") if returns(node) else kind
    if shift and not _are_signed(view, view.names(right) | set(WORD.findall(shift))):
        return None
    if name not in axes or kind not in ("<", "<=") or view.names(right) & axes:
        return None
    written = view.written(right)
    if shift:
        end = "" if kind == "<" else " + 1"
        return name, f"{f'({written})' if re.search(r'[?<>&|^]', written) else written}{shift}{end}"
    less = re.fullmatch(r"([\w.\s*+-]+?)\s*-\s*1", written)
    return name, written if kind == "<" else less[1] if less is not None else f"{written} + 1"


def _shifted(view: View, left: Node, axes: set[str]) -> tuple[Node, str]:
    """Of `i + window` the axis and " - window", by which its limit is less; "" for an axis alone."""
    if left.type != "binary_expression" or operator_of(left) not in ("+", "-"):
        return left, ""
    first, second = unwrapped(field(left, "left")), unwrapped(field(left, "right"))
    if operator_of(left) == "+" and view.code(second) in axes:
        first, second = second, first
    if view.code(first) not in axes or second.type not in ("identifier", "number_literal"):
        return left, ""
    return first, f" {'-' if operator_of(left) == '+' else '+'} {view.written(second)}"


def _are_signed(view: View, names: set[str] | frozenset[str]) -> bool:
    """Whether no name may be unsigned, of which a difference below zero is a large number."""
    of = {p.name: p.type for p in view.kernel.parameters if not p.pointer}
    known = (integer_type(unqualified(of[n])) if n in of else None for n in names if not n.isdigit())
    return all(one is not None and one.signed for one in known)
