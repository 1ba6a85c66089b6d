# SPDX-License-Identifier: Apache-2.0
"""Outer loops of a thread whose iterations have nothing to do with each other, and how often they run."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.counting import LOOPS, Counting, counting
from warplens_tools.rewrite.common.kernel_reader import ATOMIC
from warplens_tools.rewrite.common.launches import Launch
from warplens_tools.rewrite.common.opened import Opened

#: Iterations of another loop that are too many to be repeated.
_MANY = 8
_WORD = re.compile(r"[A-Za-z_]\w*")
_PLAIN = re.compile(r"[\w\s+\-*/()]+")


def outer_loop(found: Opened) -> Counting:
    """The outermost loop whose iterations have nothing to do with each other."""
    reader, rows, reason = found.reader, found.rows(), ""
    for node in walk(reader.body):
        if node.type != "for_statement" or node.start_byte in rows or _around(found, node, rows):
            continue
        loop = counting(reader.expanded, node)
        if loop is None or not _is_whole(found, loop):
            continue
        work = reader.work(loop)
        if work.why_not or work.folds:
            reason = reason or work.why_not or "its loop folds into a variable"
        elif not any(reader.stores(loop.body)) and not reader.has_atomic(loop.body):
            continue
        elif _writes_beside(found, loop):
            reason = reason or "the kernel writes memory beside the loop"
        elif _is_repeated(found, loop, rows):
            reason = reason or "every block would repeat another loop of the kernel"
        elif (found.reader.trips(loop) or 2) > 1:
            return loop
    raise Refused(reason or "no loop of the kernel could be dealt out to blocks")


def _around(found: Opened, node: Node, rows: frozenset[int]) -> bool:
    """Whether the loop stands in another one."""
    parent = node.parent
    while parent is not None and parent.id != found.reader.body.id:
        if parent.type in LOOPS and parent.start_byte not in rows:
            return True
        parent = parent.parent
    return False


def _is_whole(found: Opened, loop: Counting) -> bool:
    """Whether each thread goes through all of the loop, from the same beginning."""
    form = found.reader.forms.form(loop.first)
    step = found.reader.forms.loop(loop.node).step
    parts = [form, step]
    return all(p is not None and not any(s.kind != "parameter" for s in p.symbols) for p in parts)


def _is_repeated(found: Opened, loop: Counting, rows: frozenset[int]) -> bool:
    """Whether there are other loops beside it, which every block would go through."""
    for node in walk(found.reader.body):
        if node.type in LOOPS and node.start_byte not in rows:
            apart = node.end_byte <= loop.node.start_byte or node.start_byte >= loop.node.end_byte
            if apart and (found.reader.forms.loop(node).trips or _MANY) >= _MANY:
                return True
    return False


def _writes_beside(found: Opened, loop: Counting) -> bool:
    reader = found.reader

    def is_beside(node: Node) -> bool:
        return not loop.node.start_byte <= node.start_byte < loop.node.end_byte

    calls = any(
        ATOMIC.fullmatch(name.split("<")[0]) and is_beside(call) for call, name in reader.calls(reader.body)
    )
    return calls or any(s.space == "global" and is_beside(s.target) for s in reader.stores(reader.body))


def count_told(found: Opened, launch: Launch, loop: Counting, *, from_zero: bool = False) -> str:
    """How many iterations the loop has, or would have `from_zero`, in the words of a launch.

    Raises:
        Refused: the launch does not know.
    """
    if (
        found.reader.forms.form(loop.first) is None
        or len(loop.bounds) != 1
        or loop.downward
        or loop.step != "1"
    ):
        raise Refused("its loop does not count up by one")
    written = _told(found, launch, loop.bounds[0], 0)
    first = found.reader.forms.form(loop.first)
    if from_zero or (first is not None and first.value == 0):
        return written
    if first is None or first.value is None or first.value < 0:
        raise Refused("its loop begins at a number that the launch does not know")
    return f"{written} - {first.value}"


def _told(found: Opened, launch: Launch, node: Node, depth: int) -> str:
    """An expression of the kernel with what the launch passes for its parameters."""
    reader = found.reader
    written = reader.tree.text_of(node)
    if depth > 4 or not _PLAIN.fullmatch(written):
        raise Refused("the launch does not know how often its loop runs")
    parameters = {p.name for p in found.kernel.parameters if not p.pointer}
    parts, at = [], node.start_byte
    for name in [n for n in walk(node) if n.type == "identifier"]:
        word = reader.tree.code_of(name)
        binding = reader.binding(name)
        if word in parameters:
            given = found.launches.argument(launch, word)
            if not _PLAIN.fullmatch(given):
                raise Refused(f"a launch passes {given or 'something else'} for {word}")
            told = given if _WORD.fullmatch(given) or given.isdigit() else f"({given})"
        elif binding is None or not binding.local:
            told = word
        elif binding.kind in ("plain", "const", "constexpr") and reader.forms.set_once(binding):
            value = found.value_of(binding)
            if value is None:
                raise Refused("the launch does not know how often its loop runs")
            inner = _told(found, launch, value, depth + 1)
            told = inner if _WORD.fullmatch(inner) or inner.isdigit() else f"({inner})"
        else:
            raise Refused("the launch does not know how often its loop runs")
        parts += [reader.tree.text.text[at : name.start_byte], told]
        at = name.end_byte
    return "".join([*parts, reader.tree.text.text[at : node.end_byte]])
