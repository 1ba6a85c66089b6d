# SPDX-License-Identifier: Apache-2.0
"""Loops that add nothing where what they read is zero, so that tiles may be filled up with zeros."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.reading import View, calls, field, operator_of, unwrapped

_ZERO = re.compile(r"[-+]?0*\.?0*(?:[eE][-+]?\d+)?[fFuUlL]*")
_CONVERSIONS = re.compile(
    r"(?:__\w+2\w+|static_cast\s*<.*>|float|double|int|f?absf?|fabsf?|sqrtf?|__fsqrt_\w+)"
)
_FUSED = re.compile(r"(?:std::)?fmaf?|__fmaf_\w+|__hfma|__fma_\w+")
_SUM, _PRODUCT = re.compile(r"__[hfd]add(?:_r[nzud])?"), re.compile(r"__[hfd]mul(?:_r[nzud])?")


def zero_is_neutral(view: View, body: list[Node], places: set[int]) -> bool:
    """Whether a loop only adds what is zero where its operands, at these nodes, are."""
    zeros: set[str] = set()
    if any(
        not any(known.fullmatch(name) for known in (_CONVERSIONS, _FUSED, _SUM, _PRODUCT))
        for n in body
        for name, _ in calls(n, view)
    ):
        return False  # What is no number, times zero, is no number.
    for statement in body:
        if statement.type == "declaration":
            for one in declared_in(view, statement):
                if one.value is not None and _is_zero(view, one.value, zeros, places):
                    zeros.add(one.name)
            continue
        inner = statement.named_children[0] if statement.type == "expression_statement" else statement
        if inner.type != "assignment_expression" or not _adds_zero(view, inner, zeros, places):
            return False
    return True


def _adds_zero(view: View, node: Node, zeros: set[str], places: set[int]) -> bool:
    left, right = view.code(field(node, "left")), unwrapped(field(node, "right"))
    if operator_of(node) in ("+=", "-="):
        return _is_zero(view, right, zeros, places)
    if operator_of(node) != "=":
        return False
    if right.type == "binary_expression" and operator_of(right) in ("+", "-"):
        first, second = field(right, "left"), field(right, "right")
        if view.code(unwrapped(first)) == left:
            return _is_zero(view, second, zeros, places)
        return (
            view.code(unwrapped(second)) == left
            and operator_of(right) == "+"
            and _is_zero(view, first, zeros, places)
        )
    if right.type == "call_expression" and _SUM.fullmatch(view.code(field(right, "function"))):
        others = [n for n in field(right, "arguments").named_children if view.code(unwrapped(n)) != left]
        return len(others) == 1 and _is_zero(view, others[0], zeros, places)
    if right.type == "call_expression" and _FUSED.fullmatch(view.code(field(right, "function"))):
        given = field(right, "arguments").named_children
        added = len(given) == 3 and view.code(given[2]) == left
        return added and any(_is_zero(view, g, zeros, places) for g in given[:2])
    return False


def _is_zero(view: View, node: Node, zeros: set[str], places: set[int]) -> bool:
    node = unwrapped(node)
    if node.id in places or (node.type == "identifier" and view.code(node) in zeros):
        return True
    if node.type == "number_literal":
        return bool(_ZERO.fullmatch(view.code(node)))
    if node.type == "binary_expression":
        left = _is_zero(view, field(node, "left"), zeros, places)
        right = _is_zero(view, field(node, "right"), zeros, places)
        return {"*": left or right, "+": left and right, "-": left and right}.get(operator_of(node), False)
    if node.type == "cast_expression":
        return _is_zero(view, field(node, "value"), zeros, places)
    if node.type == "field_expression" or node.type == "unary_expression":
        return _is_zero(view, field(node, "argument"), zeros, places)
    if node.type == "call_expression" and _PRODUCT.fullmatch(view.code(field(node, "function"))):
        return any(_is_zero(view, n, zeros, places) for n in field(node, "arguments").named_children)
    if node.type == "call_expression" and _CONVERSIONS.fullmatch(view.code(field(node, "function"))):
        given = field(node, "arguments").named_children
        return len(given) == 1 and _is_zero(view, given[0], zeros, places)
    return False
