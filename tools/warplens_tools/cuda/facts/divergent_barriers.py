# SPDX-License-Identifier: Apache-2.0
"""Barriers that a branch keeps from a part of the block."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.barriers import is_barrier
from warplens_tools.cuda.facts.conditions import Condition, read_condition
from warplens_tools.cuda.facts.ordering import Ordering
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.callees import functions_named
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.text import Span

_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:<[^;()]*>)?\(")


class DivergentBarrier(msgspec.Struct, frozen=True):
    """A barrier under a condition that threads of one block answer differently."""

    span: Span
    condition: Span
    #: Whether the block is divided whatever its threads share, such as by `threadIdx.x < 16`.
    always: bool
    #: Whether the other side of the branch, or a branch beside it that the others take, has as many barriers: undefined
    #: too, but the hardware counts arrivals.
    matched: bool = False
    #: Whether it orders nothing: each thread keeps to its own elements between the barriers around it.
    idle: bool = False


def divergent_barriers(
    tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3
) -> tuple[DivergentBarrier, ...]:
    """The barriers of the whole block in the kernel's own text that an `if` keeps from some of its threads."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None or kernel.broken:
        return ()
    reader = FormReader(expanded, block)
    ordering: Ordering | None = None
    found = []
    for node in walk(expanded.function.body):
        if is_barrier(expanded.tree, node):
            divided = _dividing(expanded, reader, node, block)
            if divided is not None:
                test, always, branch, condition = divided
                span, matched = expanded.tree.span, _are_matched(expanded.tree, branch)
                matched = matched or _is_answered(expanded, reader, branch, block)
                ordering = ordering or Ordering(tree, kernel, expanded, block)
                idle = ordering.is_idle(node, branch, condition)
                found.append(DivergentBarrier(span(node), span(test), always, matched, idle))
    return tuple(found)


def _dividing(
    expanded: KernelTree, reader: FormReader, barrier: Node, block: Dim3
) -> tuple[Node, bool, Node, Condition] | None:
    """The innermost condition around a barrier that divides a block, whether it always does, its branch, and what it
    asks."""
    current = barrier.parent
    while current is not None and current.start_byte >= expanded.function.body.start_byte:
        test = current.child_by_field_name("condition") if current.type == "if_statement" else None
        condition = read_condition(expanded, reader, test) if test is not None else None
        if test is not None and condition is not None and any(s.kind == "thread" for s in condition.symbols):
            divided = [_divides(condition, same, block) for same in _settings(condition)]
            if any(divided):
                inner = test.named_children[0] if test.named_child_count == 1 else test
                return inner, all(divided), current, condition
        current = current.parent
    return None


def _are_matched(tree: SourceTree, branch: Node) -> bool:
    """Whether both sides of an `if … else` have as many barriers, those in loops counted once; or one calls functions
    that have barriers."""
    sides = [branch.child_by_field_name(side) for side in ("consequence", "alternative")]
    there = [side for side in sides if side is not None]
    if len(there) < len(sides):
        return False
    own = [sum(is_barrier(tree, n) for n in walk(side)) for side in there]
    names = {name for side in there for name in _CALLED.findall(tree.code_of(side))}
    called = [f for name in sorted(names) for f in functions_named(tree.file, name)]
    return own[0] == own[1] or any(is_barrier(tree.file, n) for f in called for n in walk(f.body))


def _is_answered(expanded: KernelTree, reader: FormReader, branch: Node, block: Dim3) -> bool:
    """Whether a branch beside that one has as many barriers, and all threads take it that do not take the first: those
    that bring tiles and those that work on them."""
    own = _asked(expanded, reader, branch)
    beside = branch.parent.named_children if branch.parent is not None else []
    if own is None or block[0] is None or branch.child_by_field_name("alternative") is not None:
        return False
    tree = expanded.tree
    barriers = sum(is_barrier(tree, n) for n in walk(branch))
    for other in beside:
        asked = _asked(expanded, reader, other) if other.id != branch.id else None
        if asked is None or sum(is_barrier(tree, n) for n in walk(other)) != barriers:
            continue
        same = {
            s.name: 0
            for c in (own, asked)
            for s in c.symbols
            if s.kind not in ("thread", "derived", "block size")
        }
        if all(a is not None and b is (not a) for a, b in _answers((own, asked), same, block)):
            return True
    return False


def _asked(expanded: KernelTree, reader: FormReader, branch: Node) -> Condition | None:
    test = branch.child_by_field_name("condition") if branch.type == "if_statement" else None
    return read_condition(expanded, reader, test) if test is not None else None


def _settings(condition: Condition) -> list[dict[str, int]]:
    """Values of what all threads of a block share: a small problem, one that fills the blocks, one that does not."""
    names = {s.name: s.kind for s in condition.symbols if s.kind not in ("thread", "derived", "block size")}
    by_kind = {"parameter": (100, 1 << 20, 1_000_003), "block": (0, 0, 3906), "grid size": (1, 4096, 3907)}
    return [{n: by_kind.get(kind, (0, 0, 0))[i] for n, kind in names.items()} for i in range(3)]


def _divides(condition: Condition, same: dict[str, int], block: Dim3) -> bool:
    return {answer for (answer,) in _answers((condition,), same, block)} == {True, False}


def _answers(
    conditions: tuple[Condition, ...], same: dict[str, int], block: Dim3
) -> Iterator[tuple[bool | None, ...]]:
    """What each thread of a block answers."""
    x, y, z = (n or 1 for n in block) if block[0] is not None else (256, 1, 1)
    sizes = {"blockDim.x": x, "blockDim.y": y, "blockDim.z": z}
    for k, j, i in itertools.product(range(z), range(y), range(x)):
        values = {**same, **sizes, "threadIdx.x": i, "threadIdx.y": j, "threadIdx.z": k}
        yield tuple(condition.holds(values) for condition in conditions)
