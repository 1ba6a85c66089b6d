# SPDX-License-Identifier: Apache-2.0
"""Loops around windows that end where the windows begin to lie outside, with that as their bound.

`for (d = 0; d < D; d++) { if (x - d - R < 0) break; … }` runs as long as
`for (d = 0; d < min(D, x - R + 1); d++) { … }`, and so does `for (d = 0; d < D && x - d - R >= 0; d++) { … }`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.comparisons import OPPOSITE
from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import plainly_declared_in, unqualified
from warplens_tools.rewrite.common.reading import View, assigned, field, operator_of, statements, unwrapped
from warplens_tools.text import TextEdit

#: The comparison that ends a loop, of what falls or grows with its counter, and what is added to the bound.
_FALLING, _GROWING = {"<": 1, "<=": 0}, {">=": 0, ">": 1}
_STEP = re.compile(r"\w+\+\+|\+\+\w+|\w+\+=1")


def bounds_of_ends(view: View) -> list[TextEdit]:
    """The edits that give loops such bounds.

    Raises:
        Refused: no loop ends so.
    """
    edits = list[TextEdit]()
    for loop in (n for n in walk(view.body) if n.type == "for_statement"):
        edits += _bounded(view, loop)
    if not edits:
        raise Refused("no loop walks a window that slides from output to output")
    return edits


def _bounded(view: View, loop: Node) -> list[TextEdit]:
    condition, update = loop.child_by_field_name("condition"), loop.child_by_field_name("update")
    if condition is None or update is None or not _STEP.fullmatch("".join(view.code(update).split())):
        return []
    name = re.search(r"\w+", view.code(update))
    test = unwrapped(condition)
    if name is None or test.type != "binary_expression" or not view.is_plain_enough(loop):
        return []
    fixed = {one for one, place in assigned(field(loop, "body"), view) if place.type == "identifier"}
    if name[0] in fixed:
        return []
    if operator_of(test) == "&&":
        first, second = unwrapped(field(test, "left")), unwrapped(field(test, "right"))
        bound = _bound(view, second, name[0], fixed, loop, ends=False)
        return [_limited(view, test, first, bound)] if bound and _counts(view, first, name[0]) else []
    jump = _jump(loop)
    if jump is None or not _counts(view, test, name[0]):
        return []
    bound = _bound(view, unwrapped(field(jump, "condition")), name[0], fixed, loop, ends=True)
    return (
        [_limited(view, test, test, bound), TextEdit(view.text.with_line(view.span(jump)), "")]
        if bound
        else []
    )


def _counts(view: View, test: Node, name: str) -> bool:
    """Whether a test is `d < D`."""
    plain = test.type == "binary_expression" and operator_of(test) in ("<", "<=")
    return plain and view.code(field(test, "left")).strip() == name


def _limited(view: View, whole: Node, test: Node, bound: str) -> TextEdit:
    """The lesser of two limits."""
    left, right = view.written(field(test, "left")), view.written(field(test, "right"))
    more = " + 1" if operator_of(test) == "<=" else ""
    return TextEdit(view.span(whole), f"{left} < min({right}{more}, {bound})")


def _jump(loop: Node) -> Node | None:
    """The `if (…) break;` at the beginning of a loop's body."""
    for node in statements(field(loop, "body")):
        if node.type == "declaration":
            continue
        inside = statements(field(node, "consequence")) if node.type == "if_statement" else []
        ends = len(inside) == 1 and inside[0].type == "break_statement"
        return node if ends and node.child_by_field_name("alternative") is None else None
    return None


def _bound(view: View, test: Node, name: str, fixed: set[str], loop: Node, *, ends: bool) -> str:
    """What a counter stays below, by a test that ends the loop or, unless `ends`, that it goes on by; "" if unknown."""
    if test.type != "binary_expression" or operator_of(test) not in OPPOSITE:
        return ""
    kind = operator_of(test) if ends else OPPOSITE[operator_of(test)]
    try:
        terms = [*_terms(view, field(test, "left"), loop, 1), *_terms(view, field(test, "right"), loop, -1)]
    except Refused:
        return ""
    mine = [sign for sign, text in terms if text == name]
    others = [(sign, text) for sign, text in terms if text != name]
    if len(mine) != 1 or any(name in re.findall(r"\w+", text) for _, text in others):
        return ""
    if fixed & {word for _, text in others for word in re.findall(r"\w+", text)}:
        return ""
    added = (_FALLING if mine[0] < 0 else _GROWING).get(kind)
    if added is None:
        return ""
    # the counter alone on its side: the others change their sign where it is added
    signed = [(sign if mine[0] < 0 else -sign, text) for sign, text in others if text != "0"]
    signed.sort(key=lambda one: -one[0])
    text = "".join(f" {'+' if sign > 0 else '-'} {text}" for sign, text in signed)
    text = text.removeprefix(" + ") if text.startswith(" + ") else f"0{text}"
    return f"{text} + {added}" if added else text


def _terms(view: View, node: Node, loop: Node, sign: int) -> Iterator[tuple[int, str]]:
    """The terms of a sum of integers with a sign, what the loop declares by its value.

    Raises:
        Refused: it is none.
    """
    inner = unwrapped(node)
    if inner.type == "binary_expression" and operator_of(inner) in ("+", "-"):
        yield from _terms(view, field(inner, "left"), loop, sign)
        yield from _terms(view, field(inner, "right"), loop, sign if operator_of(inner) == "+" else -sign)
        return
    if inner.type == "number_literal" and view.code(inner).isdigit():
        yield sign, view.code(inner)
        return
    if inner.type != "identifier":
        value = view.value(inner)
        if value is None:
            raise Refused("a bound is no sum")
        yield sign, view.written(inner)
        return
    every = [d for n in walk(view.body) for d in plainly_declared_in(view, n) if d.name == view.code(inner)]
    one = every[0] if len(every) == 1 else None
    parameter = next((p for p in view.kernel.parameters if p.name == view.code(inner)), None)
    own = one is not None and one.statement.parent is not None and one.statement.parent.id != loop.id
    if one is not None and own and one.value is not None and holds(loop, one.value):
        yield from _terms(view, one.value, loop, sign)
        return
    written = one.type if one is not None else parameter.type if parameter is not None else "int"
    kind = integer_type(unqualified(written))
    if kind is None or not kind.signed or (one is not None and one.stars) or len(every) > 1:
        raise Refused("a bound is no integer with a sign")
    yield sign, view.code(inner)
