# SPDX-License-Identifier: Apache-2.0
"""Loops that wait for the whole block, or for the whole grid, in each iteration."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses
from warplens_tools.cuda.facts.barriers import is_barrier
from warplens_tools.cuda.facts.guards import Guards
from warplens_tools.cuda.facts.lane_names import lane_names
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.text import Span

_GRID = re.compile(r"\b(?:grid_group|this_grid)\b")
_GROUP = re.compile(r"\bgrid_group\s*&?\s*(\w+)")
_GROUP_BY_VALUE = re.compile(r"\bauto\s*&?\s*(\w+)\s*=\s*(?:\w+::)*this_grid\b")


class LoopedBarriers(msgspec.Struct, frozen=True):
    """One loop with its own barriers, those of loops in it left out."""

    span: Span
    barriers: tuple[Span, ...]
    #: Where single threads, chosen by their index, work alone between them.
    alone: tuple[Span, ...]
    #: Barriers of the whole grid.
    of_grid: tuple[Span, ...] = ()
    #: The first array of global memory through which an iteration hands results on to the next; "" for none.
    through: str = ""


def looped_barriers(
    tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3
) -> tuple[LoopedBarriers, ...]:
    """Every loop of the kernel's own text that has barriers of its own, in text order."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    code, span = expanded.tree.code_of(expanded.function.body), expanded.tree.span
    if "__syncthreads" not in code and not _GRID.search(code):
        return ()
    wide = _grid_barrier(code)
    found = []
    for loop in (n for n in walk(expanded.function.body) if n.type in LOOPS):
        own = _own(loop)
        barriers = tuple(span(n) for n in own if is_barrier(expanded.tree, n))
        of_grid = tuple(span(n) for n in own if wide is not None and _is_call(expanded.tree, n, wide))
        if barriers or of_grid:
            through = _through(accesses(tree, kernel, block), span(loop))
            alone = tuple(_alone(expanded, loop, block))
            found.append(LoopedBarriers(span(loop), barriers, alone, of_grid, through))
    return tuple(found)


def _grid_barrier(code: str) -> re.Pattern[str] | None:
    """The calls that wait for the whole grid, by the names of its groups in a body; None where there are none."""
    names = {*_GROUP.findall(code), *_GROUP_BY_VALUE.findall(code)}
    if not names and not _GRID.search(code):
        return None
    named = "|".join(sorted(map(re.escape, names))) or r"(?!)"
    whole = rf"(?:(?:{named})|(?:\w+::)*this_grid\s*\(\s*\))"
    return re.compile(rf"{whole}\s*\.\s*sync\s*\(\s*\)\s*;|(?:\w+::)*sync\s*\(\s*{whole}\s*\)\s*;")


def _is_call(tree: SourceTree, node: Node, written: re.Pattern[str]) -> bool:
    return node.type == "expression_statement" and written.fullmatch(tree.code_of(node)) is not None


def _through(every: Sequence[ArrayAccess], loop: Span) -> str:
    """The array that a loop stores to, and loads from at another place, beside its barriers; "" where these may be for
    what it stores to shared memory."""
    within = [a for a in every if any(x.span == loop for x in a.loops)]
    if any(a.space == "shared" and a.writes for a in within):
        return ""
    inside = [a for a in within if a.space == "global"]
    stored = {a.name: a.indices for a in inside if a.writes and not a.atomic}
    handed = (a.name for a in inside if a.reads and a.name in stored and a.indices != stored[a.name])
    return next(handed, "")


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
