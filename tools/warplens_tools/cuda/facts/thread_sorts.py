# SPDX-License-Identifier: Apache-2.0
"""Loops by which a thread sorts an array of its own: exchanges of neighbours or of the smallest, and insertions."""

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

_ELEMENT = r"\b([A-Za-z_]\w*)\s*\[([^\[\]]+)\]"
_COMPARED = re.compile(rf"{_ELEMENT}\s*[<>]=?\s*(?:{_ELEMENT}|\w+)")
_STORED = re.compile(rf"{_ELEMENT}\s*=(?!=)")
_SWAPPED = re.compile(r"\b\w*[sS]wap\w*\s*\(\s*&?\s*([A-Za-z_]\w*)\s*\[")
_MOVED = re.compile(rf"{_ELEMENT}\s*=\s*\1\s*\[")


class ThreadSort(msgspec.Struct, frozen=True):
    """One sort: its outer loop, and the array."""

    span: Span
    name: str


def thread_sorts(tree: SourceTree, kernel: Kernel) -> tuple[ThreadSort, ...]:
    """Those of the kernel's own text, in text order, each of a loop within a loop."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    body = expanded.function.body
    found = []
    for inner, outer in _nested(expanded.tree, body):
        name = _sorted_by(expanded.tree.code_of(inner))
        if name:
            found.append(ThreadSort(expanded.tree.span(outer), name))
    return tuple(found)


def _nested(tree: SourceTree, body: Node) -> Iterator[tuple[Node, Node]]:
    """Loops that hold no other, with the loop around each."""
    for node in walk(body):
        if node.type not in LOOPS or any(n.type in LOOPS for n in walk(node) if n != node):
            continue
        if around := loops_around(tree, node):
            yield node, around[-1]


def _sorted_by(code: str) -> str:
    """The array whose elements a loop compares and moves; "" for none, or where threads do it together."""
    if "__sync" in code:
        return ""
    swapped = set(_SWAPPED.findall(code))
    moved = {m[1] for m in _MOVED.finditer(code)} | swapped
    for name, index, other, second in _COMPARED.findall(code):
        stored = {i.strip() for n, i in _STORED.findall(code) if n == name}
        exchanged = other == name and (name in swapped or {index.strip(), second.strip()} <= stored)
        inserted = code.startswith(("while", "for")) and name in code.partition("{")[0]
        if name in moved and "threadIdx" not in index and (exchanged or inserted):
            return str(name)
    return ""
