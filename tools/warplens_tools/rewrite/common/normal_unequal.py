# SPDX-License-Identifier: Apache-2.0
"""Loops that end where their counter meets a limit, in the form that rewrites read: `i != n` as `i < n`.

A rewrite that lets a thread take every thirty-second iteration would step over the limit.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.common.normal_bounds import WORD, BoundReader, bare, squeezed
from warplens_tools.text import SourceText, TextEdit

_LOOPS = frozenset({"for_statement", "while_statement"})


def limits_ordered(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edit of one loop's condition; () where there is none."""
    reader = BoundReader(text, file, kernel)
    for loop in walk(reader.body) if reader.body is not None else ():
        condition = bare(loop.child_by_field_name("condition")) if loop.type in _LOOPS else None
        if condition is None or condition.type != "binary_expression":
            continue
        operator = condition.child_by_field_name("operator")
        if operator is None or operator.type != "!=":
            continue
        left, right = (reader.code(condition.child_by_field_name(side)) for side in ("left", "right"))
        for name, limit, turned in ((left, right, False), (right, left, True)):
            upward = _upward(reader, loop, name)
            # no unsigned counter is beyond -1
            if upward is not None and (upward or "-" not in limit):
                return (TextEdit(file.span(operator), "<" if upward != turned else ">"),)
    return ()


def _upward(reader: BoundReader, loop: Node, name: str) -> bool | None:
    """Whether a loop counts a variable up by one, or down, at its end; None where it does anything else with it."""
    body, update = loop.child_by_field_name("body"), loop.child_by_field_name("update")
    if body is None or not WORD.fullmatch(name):
        return None
    inside = body.named_children if body.type == "compound_statement" else [body]
    if loop.type == "while_statement":
        update = inside[-1] if inside else None
        inside = inside[:-1]
        if any(n.type == "continue_statement" for n in walk(body)):
            return None
    if update is None or any(reader.changes(n, name) for n in inside):
        return None
    parts = {squeezed(p) for p in reader.code(update).removesuffix(";").split(",")}
    for sign, upward in (("+", True), ("-", False)):
        if parts & {f"{sign * 2}{name}", f"{name}{sign * 2}", f"{name}{sign}=1", f"{name}={name}{sign}1"}:
            return upward
    return None
