# SPDX-License-Identifier: Apache-2.0
"""Which value a variable that is set again and again has at one place: the one that was assigned last on every way
there."""

from __future__ import annotations

import re
from typing import NamedTuple

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.writes import changes

_AGAIN = frozenset({
    "for_statement", "while_statement", "do_statement", "for_range_loop", "lambda_expression", "switch_statement",
    "labeled_statement",
})  # fmt: skip


class Reached(NamedTuple):
    """The text of what was assigned, where it stands, and whether to the member alone that was asked for."""

    text: str
    at: int
    member: bool


def reaching(tree: SourceTree, binding: Binding, at: int, member: str = "") -> Reached | None:
    """What local variable `binding`, or its `member`, was set to last before offset `at`; None where that depends on
    the way there, or something may have changed it since by a pointer or a call."""
    key = ("reaching", binding.name, binding.declaration, at, member)
    return tree.remembered(key, lambda: _reaching(tree, binding, at, member))


def _reaching(tree: SourceTree, binding: Binding, at: int, member: str) -> Reached | None:
    node = tree.root.descendant_for_byte_range(at, at)
    while node is not None and node.start_byte > binding.scope_start:
        before = node.prev_named_sibling
        # What stands beside it in a list of statements was run before it.
        while before is not None and node.parent is not None and node.parent.type == "compound_statement":
            found = _set_by(tree, before, binding, member)
            if found is not None or _may_change(tree, before, binding, member):
                return found
            before = before.prev_named_sibling
        node = node.parent
        if node is not None and node.type in _AGAIN and changes(tree, tree.code_of(node), binding.name):
            return None
    return None


def _set_by(tree: SourceTree, statement: Node, binding: Binding, member: str) -> Reached | None:
    if statement.start_byte <= binding.declaration[0] and binding.declaration[1] <= statement.end_byte:
        return Reached(binding.value, binding.value_at, member=False) if binding.value else None
    target, value = _assignment(tree, statement, binding.name)
    if value is None or target not in ("", member):
        return None
    return Reached(tree.code_of(value), value.start_byte, member=bool(target))


def _assignment(tree: SourceTree, statement: Node, name: str) -> tuple[str, Node | None]:
    """Of `name = value;` and `name.x = value;` the member, "" for all of it, and the value."""
    is_expression = statement.type == "expression_statement" and bool(statement.named_children)
    inner = statement.named_children[0] if is_expression else None
    if inner is None or inner.type != "assignment_expression":
        return "", None
    left, right = inner.child_by_field_name("left"), inner.child_by_field_name("right")
    operator = inner.child_by_field_name("operator")
    found = (
        re.fullmatch(rf"{re.escape(name)}(?:\s*\.\s*(\w+))?", tree.code_of(left))
        if left is not None
        else None
    )
    if found is None or operator is None or operator.type != "=":
        return "", None
    return found[1] or "", right


def _may_change(tree: SourceTree, statement: Node, binding: Binding, member: str) -> bool:
    """Whether a statement changes what is asked for; another member of it is not."""
    if statement.start_byte <= binding.declaration[0] < statement.end_byte:
        return True
    target, value = _assignment(tree, statement, binding.name)
    rest = value if value is not None and target and target != member else statement
    return changes(tree, tree.code_of(rest), binding.name)
