# SPDX-License-Identifier: Apache-2.0
"""Integers that a condition chooses between two values, read as minima and maxima: `i < 0 ? 0 : i`, and clamps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tree_sitter import Node

from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.forms import Form

_LESS = {"<": True, "<=": True, ">": False, ">=": False}
_EXTREMES = frozenset({"min", "max"})


def chosen(node: Node, form: Callable[[Node | None], Form | None]) -> Form | None:
    """The form of `a < b ? x : y` where that is an extreme of a and b, or a clamp; None for any other choice.

    `form` reads an expression. A clamp is taken to have its lower end below its upper one.
    """
    condition = node.child_by_field_name("condition")
    while condition is not None and condition.type in ("parenthesized_expression", "condition_clause"):
        condition = condition.named_children[0] if condition.named_child_count == 1 else None
    operator = condition.child_by_field_name("operator") if condition is not None else None
    if condition is None or operator is None or operator.type not in _LESS:
        return None
    left, right = (form(condition.child_by_field_name(f)) for f in ("left", "right"))
    yes, no = (form(node.child_by_field_name(f)) for f in ("consequence", "alternative"))
    if left is None or right is None or yes is None or no is None:
        return None
    for a, b, less in _compared(left, right, operator.type):
        found = _extreme(a, b, yes, no, less=less)
        if found is not None:
            return found
    return None


def _compared(left: Form, right: Form, operator: str) -> Iterator[tuple[Form, Form, bool]]:
    """The comparison as others of the same truth, but where both sides are alike: `a < b`, `a <= b - 1`, `b > a`."""
    less = _LESS[operator]
    nearer = forms.number(1 if (operator == "<=") or operator == ">" else -1)
    other = forms.add(right, nearer)
    yield left, right, less
    if other is not None:
        yield left, other, less
    yield right, left, not less


def _extreme(a: Form, b: Form, yes: Form, no: Form, *, less: bool) -> Form | None:
    """What `a < b ? yes : no` is (`a > b` where not `less`), if it is one of the two sides."""
    if (yes, no) in ((a, b), (b, a)):
        smaller = (yes == a) == less
        return forms.combine("min" if smaller else "max", a, b)
    if yes == b and _holds(no, a):
        return forms.combine("max" if less else "min", b, no)
    if no == b and _holds(yes, a):
        return forms.combine("min" if less else "max", b, yes)
    return None


def _holds(form: Form, inner: Form) -> bool:
    """Whether a form is an extreme of another one and something else."""
    if len(form.terms) != 1 or form.terms[0][1] != 1 or len(form.terms[0][0]) != 1:
        return False
    symbol = form.terms[0][0][0]
    return symbol.operation in _EXTREMES and inner in symbol.operands
