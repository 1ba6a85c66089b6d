# SPDX-License-Identifier: Apache-2.0
"""Loops with a barrier that go on when all threads are done: each has a flag for that, and nobody asks the block."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.barriers import is_barrier
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

#: What leaves a loop, or asks the block or the warp whether to.
_LEAVES = re.compile(
    r"\b(?:break|return|goto|__syncthreads_(?:or|and|count)|__(?:any|all|ballot)(?:_sync)?)\b"
)
_ASKED = re.compile(r"\bif\s*\(\s*!\s*([A-Za-z_]\w*)\b")


class DoneFlag(msgspec.Struct, frozen=True):
    """A loop whose iterations a thread passes by once its flag is set."""

    loop: Span
    flag: str
    #: The first test of it in the loop.
    test: Span


def done_flags(tree: SourceTree, kernel: Kernel) -> tuple[DoneFlag, ...]:
    """Those of the kernel's own text, in text order."""
    expanded = kernel_tree(tree, kernel)
    code = expanded.tree.code_of(expanded.function.body) if expanded is not None else ""
    if expanded is None or "__syncthreads" not in code or "bool" not in code:
        return ()
    found = []
    for loop in (n for n in walk(expanded.function.body) if n.type in LOOPS):
        test = _test(expanded.tree, loop, code)
        if test is not None:
            found.append(DoneFlag(expanded.tree.span(loop), test[1], expanded.tree.span(test[0])))
    return tuple(found)


def _test(tree: SourceTree, loop: Node, body: str) -> tuple[Node, str] | None:
    """The first `if (!done && …)` in a loop that nothing leaves, and the flag's name."""
    head, code = loop.child_by_field_name("condition"), tree.code_of(loop)
    if head is None or _LEAVES.search(code) or not any(is_barrier(tree, n) for n in walk(loop)):
        return None
    for node in walk(loop):
        asked = _ASKED.match(tree.code_of(node)) if node.type == "if_statement" else None
        flag = asked[1] if asked is not None else ""
        works = any(n.type in LOOPS or n.type == "call_expression" for n in walk(node))
        barrier = any(is_barrier(tree, n) for n in walk(node))
        if flag and works and not barrier and _is_set_for_good(flag, body) and flag not in tree.code_of(head):
            return node, flag
    return None


def _is_set_for_good(flag: str, body: str) -> bool:
    """Whether a local begins as false, is set to true, and never back."""
    name = re.escape(flag)
    begins = re.search(rf"\bbool\s+{name}\s*=\s*false\b", body) is not None
    given = re.findall(rf"\b{name}\s*=(?!=)\s*([^;,]+)", body)
    return (
        begins
        and [g.strip() for g in given].count("false") == 1
        and set(map(str.strip, given)) == {"false", "true"}
    )
