# SPDX-License-Identifier: Apache-2.0
"""Loops that run on to a number which other loops of the kernel count: a sort of what a search before it found.

Such a loop is as long as what counts is often: `count++` two loops deep gives it the length of both together, so that
two loops up to `count`, one in the other, weigh as much as four.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

_WORD = re.compile(r"[A-Za-z_]\w*")


class CountedNest(msgspec.Struct, frozen=True):
    """Loops in each other, of which one or more run to what was counted."""

    #: The outermost one.
    span: Span
    #: Plain loops that they weigh as much as.
    depth: int


def counted_nests(tree: SourceTree, kernel: Kernel) -> tuple[CountedNest, ...]:
    """Those of the kernel's own text, each with the deepest loops in it."""
    key = ("counted nests", kernel.span, kernel.name)
    return tree.remembered(key, lambda: tuple(_nests(tree, kernel)))


def _nests(tree: SourceTree, kernel: Kernel) -> Iterator[CountedNest]:
    expanded = kernel_tree(tree, kernel)
    if expanded is None or kernel.broken:
        return
    own, nodes = expanded.tree, list(walk(expanded.function.body))
    counted = _counted(own, nodes)
    deepest: dict[int, tuple[Node, int]] = {}
    for loop in (n for n in nodes if n.type in LOOPS) if counted else ():
        around = [*loops_around(own, loop), loop]
        depths = [_length(own, each, counted) for each in around]
        known = deepest.get(around[0].id, (around[0], 0))[1]
        if max(depths) > 1:
            deepest[around[0].id] = around[0], max(known, sum(depths))
    for outer, depth in deepest.values():
        yield CountedNest(own.span(outer), depth)


def _counted(tree: SourceTree, nodes: list[Node]) -> dict[str, list[tuple[Node, int]]]:
    """Names that a loop's body counts up by one, with that loop nest's outermost loop and its depth."""
    found: dict[str, list[tuple[Node, int]]] = {}
    for node in nodes:
        named = node.child_by_field_name("argument") if node.type == "update_expression" else None
        if (
            named is None
            or named.type != "identifier"
            or not tree.code_of(node).replace(" ", "").endswith("++")
        ):
            continue
        outer = node.parent
        if outer is None or outer.type != "for_statement":
            around = loops_around(tree, node)
            if around:
                found.setdefault(tree.code_of(named), []).append((around[0], len(around)))
    return found


def _length(tree: SourceTree, loop: Node, counted: dict[str, list[tuple[Node, int]]]) -> int:
    """Plain loops that one weighs as much as."""
    condition = loop.child_by_field_name("condition")
    names = _WORD.findall(tree.code_of(condition)) if condition is not None else []
    return max(
        (depth for n in names for nest, depth in counted.get(n, ()) if nest.end_byte <= loop.start_byte),
        default=1,
    )
