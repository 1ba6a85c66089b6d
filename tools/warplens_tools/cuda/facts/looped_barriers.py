# SPDX-License-Identifier: Apache-2.0
"""Loops that wait for the whole block several times in each iteration."""

from __future__ import annotations

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.barriers import is_barrier
from warplens_tools.cuda.facts.guards import Guards
from warplens_tools.cuda.facts.lane_names import lane_names
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.text import Span


class LoopedBarriers(msgspec.Struct, frozen=True):
    """One loop with its own barriers, those of loops in it left out."""

    span: Span
    barriers: tuple[Span, ...]
    #: Where single threads, chosen by their index, work alone between them.
    alone: tuple[Span, ...]


def looped_barriers(
    tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3
) -> tuple[LoopedBarriers, ...]:
    """Every loop of the kernel's own text that has barriers of its own, in text order."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None or "__syncthreads" not in expanded.tree.code_of(expanded.function.body):
        return ()
    loops = [n for n in walk(expanded.function.body) if n.type in LOOPS]
    found = [(n, b) for n in loops if (b := [x for x in _own(n) if is_barrier(expanded.tree, x)])]
    return tuple(
        LoopedBarriers(
            expanded.tree.span(n), tuple(map(expanded.tree.span, b)), tuple(_alone(expanded, n, block))
        )
        for n, b in found
    )


def _own(loop: Node) -> list[Node]:
    """What stands in a loop and in no loop within it."""
    found: list[Node] = []
    stack = list(loop.named_children)
    while stack:
        node = stack.pop()
        if node.type not in LOOPS:
            found.append(node)
            stack += node.named_children
    return sorted(found, key=lambda n: n.start_byte)


def _alone(expanded: KernelTree, loop: Node, block: Dim3) -> list[Span]:
    guards = Guards(FormReader(expanded, block), lane_names(expanded.tree.code_of(expanded.function.body)))
    tests = [n for n in _own(loop) if n.type == "if_statement"]
    sides = [(n, n.child_by_field_name("consequence")) for n in tests]
    inside = [(n, then.named_children[0]) for n, then in sides if then is not None and then.named_children]
    return [expanded.tree.span(n) for n, first in inside if guards.are_few(guards.tests(first))]
