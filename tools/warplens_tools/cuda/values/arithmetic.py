"""Integer arithmetic on forms: one operation as C computes it, and expressions given as text."""

from __future__ import annotations

from collections.abc import Mapping

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.forms import Form
from warplens_tools.text import SourceText


def substituted(expression: str, known: Mapping[str, Form | None]) -> Form | None:
    """An integer expression of names that stand for forms; None for anything but arithmetic on them."""
    body = parse_tree(SourceText(f"int f() {{ return {expression}; }}")).captures(
        "(return_statement (_) @value)"
    )
    found = body.get("value", [])
    return _arithmetic(found[0], known) if found else None


def _arithmetic(node: Node, known: Mapping[str, Form | None]) -> Form | None:
    text = (node.text or b"").decode("ascii", "replace")
    if node.type == "identifier":
        return known.get(text)
    if node.type == "number_literal" and text.isdigit():
        return forms.number(int(text))
    if node.type == "parenthesized_expression" and node.named_child_count == 1:
        return _arithmetic(node.named_children[0], known)
    operator = node.child_by_field_name("operator")
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if node.type != "binary_expression" or operator is None or left is None or right is None:
        return None
    a, b = _arithmetic(left, known), _arithmetic(right, known)
    return combine(operator.type, a, b) if a is not None and b is not None else None


def combine(operator: str, left: Form, right: Form) -> Form | None:
    """left op right, as C computes it; None for an operator that gives no integer form."""
    if operator == "+":
        return forms.add(left, right)
    if operator == "-":
        return forms.subtract(left, right)
    if operator == "*":
        return forms.multiply(left, right)
    shift = right.value
    if operator == "<<" and shift is not None and 0 <= shift < 31:
        return forms.multiply(left, forms.number(1 << shift))
    if operator in ("/", "%") and right.value == 0:
        return None
    if operator == "/" and right.value == 1:
        return left
    return forms.derive(operator, left, right) if operator in _DERIVED else None


_DERIVED = frozenset({"/", "%", "&", "|", "^", "<<", ">>", "min", "max"})
