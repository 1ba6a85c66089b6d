# SPDX-License-Identifier: Apache-2.0
"""Loops in which nothing differs between the threads of a block, or of one axis of it: each of them goes through all
iterations, and comes to the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.guards import Guards
from warplens_tools.cuda.facts.lane_names import lane_names
from warplens_tools.cuda.facts.thread_marks import Mark, ThreadMarks
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, is_assigned, walk
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.text import Span

#: Iterations from which one that all threads do again is worth a word: a warp's.
FEWEST = 32
#: Threads work together in it, wait, or see time pass; or it halves what is left, and is short.
_TOGETHER = re.compile(
    r"__sync|__shfl|__ballot|__any|__all|__match|__reduce|\batomic|\.sync\s*\(|\bclock|\basm\b|\bvolatile\b|nanosleep|"
    r"cp_async|memcpy_async|\bprintf\b|\bgoto\b|mma|/\s*2\b|>>=?\s*1\b|\*=\s*2\b|<<=\s*1\b"
)
_READS = frozenset({"subscript_expression", "pointer_expression"})
_AXES: tuple[Mark, ...] = ("x", "y", "z")


class AlikeLoop(msgspec.Struct, frozen=True):
    """One such loop."""

    span: Span
    #: Who does the same: the whole launch, the block, the threads along one axis, neighbours with one quotient.
    of: Literal["launch", "block", "axis", "neighbours"]
    #: Along which axis, "x", "y" or "z"; "" where along all.
    axis: str
    #: Iterations, those of inner loops counted; None where not known.
    trips: int | None


def alike_loops(tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3) -> tuple[AlikeLoop, ...]:
    """The outermost such loops, in text order."""
    key = ("alike loops", kernel.span, kernel.name, block)
    return tree.remembered(key, lambda: tuple(_every(tree, kernel, block)))


def _every(tree: SourceTree, kernel: Kernel, block: Dim3) -> Iterator[AlikeLoop]:
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return
    body = expanded.function.body
    code = expanded.tree.code_of(body)
    extents = dict(zip(_AXES, block, strict=True))
    used = [a for a in _AXES if extents[a] != 1 and re.search(rf"\bthreadIdx\s*\.\s*{a}\b", code)]
    if not used or not any(n.type in LOOPS for n in walk(body)):
        return
    marks = ThreadMarks(expanded, kernel)
    guards, kept = Guards(marks.forms, lane_names(code)), -1
    for loop in walk(body):
        if loop.type not in LOOPS or loop.start_byte < kept:
            continue
        found = _alike(marks, loop, used)
        if found is not None and not guards.are_few(guards.tests(loop)):
            kept = loop.end_byte
            yield found


def _alike(marks: ThreadMarks, loop: Node, used: list[Mark]) -> AlikeLoop | None:
    header, trips = marks.forms.loop(loop), _trips(marks, loop)
    counted = header.variable or (
        loop.type == "for_statement" and loop.child_by_field_name("condition") is not None
    )
    if not counted or (trips is not None and trips < FEWEST):
        return None
    if _TOGETHER.search(marks.tree.code_of(loop)) or not _works(loop) or _stores(marks, loop):
        return None
    marks.come_to(loop)
    by, span = marks.of(loop), marks.tree.span(loop)
    free = [a for a in used if a not in by]
    if "untold" in by or not free:
        return None
    if len(free) < len(used):
        return AlikeLoop(span, "axis", free[0], trips)
    if "group" in by:
        return AlikeLoop(span, "neighbours", "", trips)
    return AlikeLoop(span, "block" if "block" in by else "launch", "", trips)


def _trips(marks: ThreadMarks, loop: Node) -> int | None:
    """Iterations of a loop with those of the longest nest in it; None where one of them is not told."""
    found: Loop = marks.forms.loop(loop)
    inner = [_trips(marks, n) for n in walk(loop) if n.type in LOOPS and n.id != loop.id]
    if found.trips is None or any(n is None for n in inner):
        return None
    return found.trips * max((n for n in inner if n is not None), default=1)


def _works(loop: Node) -> bool:
    """Whether it works out something of elements or of what functions return: more than a copy."""
    asks = any(n.type == "call_expression" or (n.type in _READS and not is_assigned(n)) for n in walk(loop))
    return asks and any(_is_sum(n) for n in walk(loop))


def _is_sum(node: Node) -> bool:
    """`a += …`, or `a = …` with a sum, a product or a call that is no part of an index; steps of a loop are none."""
    if node.type != "assignment_expression" or (node.parent is not None and node.parent.type in LOOPS):
        return False
    operator, value = node.child_by_field_name("operator"), node.child_by_field_name("right")
    return (operator is not None and operator.type != "=") or (value is not None and _combines(value))


def _combines(value: Node) -> bool:
    if value.type in ("binary_expression", "call_expression"):
        return True
    return value.type != "subscript_expression" and any(_combines(n) for n in value.named_children)


def _stores(marks: ThreadMarks, loop: Node) -> bool:
    """Whether it stores elements that other threads see."""
    for node in walk(loop):
        if node.type == "subscript_expression" and is_assigned(node):
            base = node
            while (
                base.type == "subscript_expression"
                and (inner := base.child_by_field_name("argument")) is not None
            ):
                base = inner
            if base.type != "identifier" or marks.tree.code_of(base) in marks.seen:
                return True
        if node.type == "pointer_expression" and is_assigned(node):
            return True
    return False
