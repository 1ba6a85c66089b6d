# SPDX-License-Identifier: Apache-2.0
"""What stands around a node, asked of many nodes of one tree.

The parser finds a node's parent on its way down from the root, so that going up from each of a long sum's terms costs
the cube of their number. Here each node is gone through once, and what is known of it serves all that it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree
from warplens_tools.text import Span

Found = TypeVar("Found")


def inherited(
    known: dict[int, Found], node: Node, step: Callable[[Node, Node, Found], Found], top: Found
) -> Found:
    """What holds for a node because of those around it: `top` for the root, and `step(outer, node, of outer)` below.

    `known` keeps it, by `Node.id`, for the other nodes of the tree.
    """
    path: list[tuple[Node, Node]] = []
    current = node
    while current.id not in known:
        outer = current.parent
        if outer is None:
            known[current.id] = top
            break
        path.append((outer, current))
        current = outer
    for outer, child in reversed(path):
        known[child.id] = step(outer, child, known[outer.id])
    return known[node.id]


def loops_around(tree: SourceTree, node: Node) -> list[Node]:
    """Loops whose body (or condition, or update) holds the node, outermost first."""
    known: dict[int, tuple[Node, ...]] = tree.remembered(("loops around",), dict)
    found = inherited(known, node, _with_loop, ())
    return list(found)


def _with_loop(outer: Node, child: Node, loops: tuple[Node, ...]) -> tuple[Node, ...]:
    if outer.type == "function_definition":
        return ()
    if outer.type in LOOPS:
        first = outer.child_by_field_name("initializer")
        if first is None or first.id != child.id:
            return (*loops, outer)
    return loops


def exclude_each_other(tree: SourceTree, one: Span, other: Span) -> bool:
    """Whether who comes to one of two places does not come to the other in the same pass: they stand in the two
    branches of one test."""
    tree = tree.file
    first, last = sorted(tree.text.offset(at.line, at.column) for at in (one, other))
    around = tree.root.named_descendant_for_byte_range(first, last + 1)
    if around is None or around.type not in ("if_statement", "conditional_expression"):
        return False
    sides = [around.child_by_field_name(side) for side in ("consequence", "alternative")]
    return all(
        side is not None and side.start_byte <= at < side.end_byte
        for side, at in zip(sides, (first, last), strict=True)
    )
