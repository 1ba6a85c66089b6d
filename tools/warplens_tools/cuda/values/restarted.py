# SPDX-License-Identifier: Apache-2.0
"""Loops over a variable that serves several of them, each of which begins it anew: `i = first; while (i < n) { …; i +=
step; }`, one after the other or within another loop."""

from __future__ import annotations

import functools
import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.last_set import set_before
from warplens_tools.cuda.values.loop_headers import LOOPS, Stepped, is_in_header, stepped_names, stepping_loop
from warplens_tools.cuda.values.writes import changes


def stepping(tree: SourceTree, node: Node, binding: Binding) -> Stepped | None:
    """The loop around `node` that steps the variable by one update, begun where it is declared or set before the loop;
    None where the variable may change otherwise on the way from there to `node`."""
    found = stepping_loop(tree, node, binding)
    if found is not None or binding.name not in stepped_names(tree):
        return found
    for loop in reversed(loops_around(tree, node)):
        if loop.start_byte < binding.start:
            return None
        key = ("restarted", binding.name, loop.start_byte)
        known: Stepped | bool = tree.remembered(key, functools.partial(_restarted, tree, loop, binding))
        if isinstance(known, Stepped):
            late = known.update.start_byte < node.start_byte and not is_in_header(known.update)
            return None if late else known
        if known:
            return None
    return None


def _restarted(tree: SourceTree, loop: Node, binding: Binding) -> Stepped | bool:
    """The loop as one over the variable; else whether it changes it."""
    code, name = tree.code_of(loop), re.escape(binding.name)
    if not changes(tree, code, binding.name):
        return False
    steps = re.compile(
        rf"(?<![\w.>])(?:{name}\s*(?:\+=|-=)[^;,)]*|{name}\s*(?:\+\+|--)|(?:\+\+|--)\s*{name}\b)"
    )
    found = steps.findall(code)
    at = steps.search(code)
    if len(found) != 1 or at is None or loop.type not in LOOPS or _is_shown(tree, binding):
        return True
    update = _update(tree, loop, loop.start_byte + at.start(), loop.start_byte + at.end())
    rest = code[: at.start()] + " " * (at.end() - at.start()) + code[at.end() :]
    set_by = set_before(tree, binding, loop) if update is not None else None
    if update is None or set_by is None or changes(tree, rest, binding.name):
        return True
    value, sign = set_by.part("right"), set_by.part("operator")
    if set_by.assignment is None:
        return Stepped(loop, update, binding)
    if value is None or sign is None or sign.type != "=" or set_by.member:
        return True
    begun = msgspec.structs.replace(
        binding,
        value=tree.code_of(value),
        value_at=value.start_byte,
        declaration=(set_by.assignment.start_byte, set_by.assignment.end_byte),
        start=set_by.assignment.end_byte,
    )
    return Stepped(loop, update, begun)


def _update(tree: SourceTree, loop: Node, start: int, end: int) -> Node | None:
    """The update at these offsets, where each iteration comes past it once."""
    node = tree.root.descendant_for_byte_range(start, end - 1)
    while node is not None and node.type not in ("assignment_expression", "update_expression"):
        node = node.parent if node.start_byte >= loop.start_byte else None
    statement = node.parent if node is not None else None
    if statement is None or statement.id == loop.id:
        return node
    block = statement.parent if statement.type == "expression_statement" else None
    body = loop.child_by_field_name("body")
    return node if block is not None and body is not None and block.id == body.id else None


def _is_shown(tree: SourceTree, binding: Binding) -> bool:
    """Whether the variable's address is taken anywhere."""
    code = tree.masked.code[binding.declaration[1] : binding.end].decode("ascii")
    return bool(re.search(rf"(?:[=(,]|return)\s*&\s*{re.escape(binding.name)}\b", code))
