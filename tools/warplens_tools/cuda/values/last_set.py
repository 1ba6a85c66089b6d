# SPDX-License-Identifier: Apache-2.0
"""The assignment that a variable has its value from at one place, where every way there comes past it: `i = t;` or
`i /= n;` of a variable that is set several times, one statement after the other; `grid.x = n;` of a member."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.forms import Form, combine
from warplens_tools.cuda.values.integer_names import integer_of
from warplens_tools.cuda.values.writes import changes

#: Statements that are run past before a place; a longer list is generated code.
_FURTHEST = 400
_AGAIN = frozenset({*LOOPS, "lambda_expression", "switch_statement", "labeled_statement", "case_statement"})


class LastSet(NamedTuple):
    """What set a variable last: an assignment, or None for its declaration, or its caller."""

    assignment: Node | None

    def part(self, field: str) -> Node | None:
        """The assignment's "left", "operator" or "right"; None where there is none."""
        return self.assignment.child_by_field_name(field) if self.assignment is not None else None

    @property
    def member(self) -> bool:
        """Whether the member alone that was asked for was set."""
        left = self.part("left")
        return left is not None and left.type == "field_expression"


def last_set(tree: SourceTree, binding: Binding, at: int, member: str = "") -> LastSet | None:
    """What set local variable or parameter `binding`, or its `member`, last before offset `at`; None where the way
    there decides it, or something in a loop, a branch or a call may have changed it since."""
    key = ("last set", binding.name, binding.declaration, at, member)
    return tree.remembered(key, lambda: _last_set(tree, binding, at, member))


class Reached(NamedTuple):
    """The text that a variable was set to, where it stands, and whether its member alone was."""

    text: str
    at: int
    member: bool


def reaching(tree: SourceTree, binding: Binding, at: int, member: str = "") -> Reached | None:
    """What `last_set` says as the text of one value; None where it was worked out of the one before."""
    found = last_set(tree, binding, at, member)
    if found is None:
        return None
    if found.assignment is None:
        return Reached(binding.value, binding.value_at, member=False) if binding.value else None
    operator, value = found.part("operator"), found.part("right")
    if operator is None or operator.type != "=" or value is None:
        return None
    return Reached(tree.code_of(value), value.start_byte, found.member)


def set_anew(name: str, code: str) -> bool:
    """Whether a pointer is assigned, swapped or has its address taken, beyond being advanced; `*p = x` sets another."""
    word = re.escape(name)
    advanced = rf"\b{word}\s*=\s*{word}\s*[-+]"
    return bool(
        re.search(rf"(?<!\*)\b{word}\s*=(?!=)|(?<!&)&\s*{word}\b(?!\s*\[)", re.sub(advanced, "", code))
    ) or bool(re.search(rf"\bswap\s*\([^()]*\b{word}\b", code))


def set_members(tree: SourceTree, binding: Binding, at: int, members: str) -> Mapping[str, Node] | None:
    """What each of an object's members, e.g. "xyz", was set to last before an offset by a statement of its own; None
    where one depends on the way there, or was set otherwise. {} for none."""
    found: dict[str, Node] = {}
    for member in members:
        last = last_set(tree, binding, at, member)
        operator, value = (last.part(field) if last is not None else None for field in ("operator", "right"))
        if last is None or (last.assignment is not None and not last.member):
            return None
        if operator is not None and operator.type != "=":
            return None
        found |= {member: value} if value is not None else {}
    return found


def assigned(
    tree: SourceTree,
    binding: Binding,
    at: int,
    traced: Callable[[Node | None], Form | None],
    initial: Callable[[Binding], Form | None],
) -> Form | None:
    """The form of what an integer variable is at offset `at`, where one assignment, or none, decides it; `initial` is
    that of what it was declared with or passed."""
    declared = integer_of(tree, tree.masked.code[binding.declaration[0] : binding.start].decode("ascii"))
    found = last_set(tree, binding, at)
    if found is None or (declared is not None and declared.is_narrow):
        return None
    if found.assignment is None:
        return initial(binding)
    operator, value = found.part("operator"), traced(found.part("right"))
    if operator is None or value is None or operator.type == "=":
        return value
    before = traced(found.part("left"))
    return combine(operator.type.removesuffix("="), before, value) if before is not None else None


def set_before(tree: SourceTree, binding: Binding, statement: Node) -> LastSet | None:
    """As `last_set` of the place before a statement, which may change the variable itself."""
    return _set_before(tree, binding, statement, "", statement)


def _last_set(tree: SourceTree, binding: Binding, at: int, member: str) -> LastSet | None:
    return _set_before(tree, binding, tree.root.descendant_for_byte_range(at, at), member, None)


def _set_before(
    tree: SourceTree, binding: Binding, node: Node | None, member: str, entered: Node | None
) -> LastSet | None:
    steps, body = 0, tree.masked.code[binding.scope_start : binding.end]
    if b"goto" in body:
        return None
    while node is not None and node.start_byte > binding.scope_start:
        before = node.prev_named_sibling
        while before is not None and node.parent is not None and node.parent.type == "compound_statement":
            steps += 1
            if _declares(before, binding):
                return LastSet(None)
            set_here = _assignment(tree, before, binding.name)
            if set_here is not None and _member(tree, set_here) in ("", member):
                return LastSet(set_here)
            # where another member is set, only the value counts
            rest = set_here.child_by_field_name("right") if set_here is not None and member else before
            if steps > _FURTHEST or (rest is not None and changes(tree, tree.code_of(rest), binding.name)):
                return None
            before = before.prev_named_sibling
        if node is not entered and _may_change_on_the_way(tree, node, binding.name):
            return None
        node = node.parent
    return LastSet(None)


def _declares(statement: Node, binding: Binding) -> bool:
    return statement.start_byte <= binding.declaration[0] and binding.declaration[1] <= statement.end_byte


def _assignment(tree: SourceTree, statement: Node, name: str) -> Node | None:
    """The assignment that a statement is, where it sets all of the variable, or a member, by a value that changes
    nothing."""
    if statement.type != "expression_statement" or not statement.named_children:
        return None
    inner = statement.named_children[0]
    left, right = inner.child_by_field_name("left"), inner.child_by_field_name("right")
    if inner.type != "assignment_expression" or left is None or right is None:
        return None
    operator = left.child_by_field_name("operator") if left.type == "field_expression" else None
    of = left.child_by_field_name("argument") if operator is not None and operator.type == "." else left
    plain = of is not None and of.type == "identifier" and tree.code_of(of) == name
    return inner if plain and not changes(tree, tree.code_of(right), name) else None


def _member(tree: SourceTree, assignment: Node) -> str:
    """The member that is assigned, "" for all of a variable."""
    left = assignment.child_by_field_name("left")
    field = left.child_by_field_name("field") if left is not None else None
    return tree.code_of(field) if field is not None else ""


def _may_change_on_the_way(tree: SourceTree, node: Node, name: str) -> bool:
    """Whether leaving `node` for what is around it comes past a change: in a loop, by a condition, or by its own
    statement."""
    around = node.parent
    if around is None:
        return False
    if around.type in _AGAIN:
        return changes(tree, tree.code_of(around), name)
    if around.type == "if_statement":
        condition = around.child_by_field_name("condition")
        return condition is not None and changes(tree, tree.code_of(condition), name)
    if around.type == "expression_statement":
        return _assignment(tree, around, name) is None and changes(tree, tree.code_of(around), name)
    return around.type == "declaration" and changes(tree, tree.code_of(around), name)
