# SPDX-License-Identifier: Apache-2.0
"""Binary searches that each thread does by itself: a loop that halves a range around a load, or a call of one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.callees import called_names, functions_named
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

_CALLS = re.compile(r"\b(?:thrust::)?(lower_bound|upper_bound|binary_search|equal_range)\s*\(")
#: `middle = (low + high) / 2`, `low + (high - low) / 2`, `(low + high) >> 1`.
_MIDDLE = re.compile(
    r"\b([A-Za-z_]\w*)\s*=\s*(?:\w+\s*\+\s*)?\(?\s*\(?\s*\w+\s*[-+]\s*\w+(?:\s*\+\s*1)?\s*\)?\s*(?:/\s*2|>>\s*1)\b"
)

_NAME = re.compile(r"[A-Za-z_]\w*")


class Search(msgspec.Struct, frozen=True):
    """One search."""

    span: Span
    #: "a loop", or the function's name.
    by: str


def searches(tree: SourceTree, kernel: Kernel) -> tuple[Search, ...]:
    """Those of the kernel's own text, then calls of the device functions of its file that hold one, in text order."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    body, inner = expanded.function.body, expanded.tree
    code = inner.code_of(body)
    found = [Search(inner.span(n), "a loop") for n in _loops(inner, body)]
    names = [n for n in called_names(tree, code) if _holds(tree, n)]
    for node in walk(body):
        callee = node.child_by_field_name("function") if node.type == "call_expression" else None
        name = inner.code_of(callee).split("<")[0].strip().rsplit("::", 1)[-1] if callee is not None else ""
        if name in names or _CALLS.match(f"{name}("):
            found.append(Search(inner.span(node), name))
    return tuple(sorted(found, key=lambda s: s.span))


def _holds(tree: SourceTree, name: str) -> bool:
    return any(f.is_device and any(True for _ in _loops(tree, f.body)) for f in functions_named(tree, name))


def _loops(tree: SourceTree, body: Node) -> Iterator[Node]:
    """Loops that load where the middle of a range is, and go on with one of its halves."""
    if not _MIDDLE.search(tree.code_of(body)):
        return
    for node in walk(body):
        code = tree.code_of(node) if node.type in LOOPS else ""
        middle = _MIDDLE.search(code)
        if middle is None or not re.search(rf"\[[^\]]*\b{re.escape(middle[1])}\b", code):
            continue
        if _halves(code, middle):
            yield node


def _halves(code: str, middle: re.Match[str]) -> bool:
    """Whether an end of the range that the middle is worked out of moves to it: a merge sort's middle ends a loop."""
    ends = set(_NAME.findall(middle[0])) - {middle[1]}
    moved = re.findall(rf"\b(\w+)\s*=\s*{re.escape(middle[1])}\b(?!\s*[-+*/]\s*[A-Za-z_])", code)
    return not ends.isdisjoint(moved)
