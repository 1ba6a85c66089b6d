# SPDX-License-Identifier: Apache-2.0
"""`grid.x = (n + 255) / 256`: members of a launch's extents that statements of their own set after its declaration."""

from __future__ import annotations

from collections.abc import Mapping

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.writes import changes

_AXES = ("x", "y", "z")


def set_members(tree: SourceTree, binding: Binding, before: int) -> Mapping[str, Node] | None:
    """What each member of an object is set to before an offset: once, in the block that declares it, whatever happens
    there. None where anything else may change it. {} for none."""
    block = _block(tree, binding)
    if block is None:
        return None
    found: dict[str, Node] = {}
    code = bytearray(tree.masked.code[binding.declaration[1] : binding.end])
    for statement in block.named_children:
        member = _member(tree, statement, binding.name)
        if member is None or statement.start_byte < binding.declaration[1]:
            continue
        axis, left, right = member
        if axis in found or statement.end_byte > before:
            return None
        found[axis] = right
        start, end = (at - binding.declaration[1] for at in (left.start_byte, left.end_byte))
        code[start:end] = b" " * (end - start)
    return None if changes(tree, code.decode("ascii"), binding.name) else found


def _block(tree: SourceTree, binding: Binding) -> Node | None:
    node = tree.root.descendant_for_byte_range(*binding.declaration)
    while node is not None and node.type != "compound_statement":
        node = node.parent
    return node


def _member(tree: SourceTree, statement: Node, name: str) -> tuple[str, Node, Node] | None:
    """The axis, the member and what it is set to, of `name.x = …;`."""
    if statement.type != "expression_statement" or statement.named_child_count != 1:
        return None
    assignment = statement.named_children[0]
    left, right = assignment.child_by_field_name("left"), assignment.child_by_field_name("right")
    operator = assignment.child_by_field_name("operator")
    if (
        left is None
        or right is None
        or operator is None
        or operator.type != "="
        or left.type != "field_expression"
    ):
        return None
    of, field = left.child_by_field_name("argument"), left.child_by_field_name("field")
    if of is None or field is None or tree.code_of(of) != name or tree.code_of(field) not in _AXES:
        return None
    return tree.code_of(field), left, right
