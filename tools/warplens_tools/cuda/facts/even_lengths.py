# SPDX-License-Identifier: Apache-2.0
"""Loops that begin and end at one place of the lane's own: `for (int j = y - 2; j < y + 2; ++j)` takes as many
iterations for every lane, wherever that is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree

_WORD = re.compile(r"[A-Za-z_]\w*")
_MEMBER = re.compile(r"(?:\.|->)\s*[A-Za-z_]\w*")


def is_as_long_for_all(tree: SourceTree, loop: Node, varying: frozenset[str]) -> bool:
    """Whether the first value and the bound of a `for` are sums in which the same terms hold all that is `varying`;
    False where one is no sum, or where neither names anything of it."""
    header, test = loop.child_by_field_name("initializer"), loop.child_by_field_name("condition")
    if header is None or test is None or loop.type != "for_statement":
        return False
    declarator = header.child_by_field_name("declarator") or header
    first = declarator.child_by_field_name("value") or declarator.child_by_field_name("right")
    name = declarator.child_by_field_name("declarator") or declarator.child_by_field_name("left")
    sides = [test.child_by_field_name(side) for side in ("left", "right")]
    if first is None or name is None or sides[0] is None or sides[1] is None:
        return False
    counter = tree.code_of(name)
    bounds = [side for side in sides if side is not None and tree.code_of(side) != counter]
    if len(bounds) != 1:
        return False
    begins, ends = (sorted(_varying(tree, side, varying)) for side in (first, bounds[0]))
    return bool(begins) and begins == ends


def _varying(tree: SourceTree, value: Node, varying: frozenset[str]) -> Iterator[tuple[int, str]]:
    """The signed terms of a sum that name what varies."""
    for sign, term in _terms(value, 1):
        said = "".join(tree.code_of(term).split())
        if set(_WORD.findall(_MEMBER.sub("", said))) & varying:
            yield sign, said


def _terms(node: Node, sign: int) -> Iterator[tuple[int, Node]]:
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if operator is None or operator.type not in ("+", "-") or left is None or right is None:
        yield sign, node
        return
    yield from _terms(left, sign)
    yield from _terms(right, sign if operator.type == "+" else -sign)
