# SPDX-License-Identifier: Apache-2.0
"""Trees over a warp that go through shared memory: steps `s[i] += s[i + 16]` down to 1, written one by one without a
barrier of the block between them, or a loop over a distance that halves."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.callees import called_names, functions_named
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

#: Steps of a tree over a warp from which it is one.
FEWEST = 3
#: An element joined with the one so many places on: `s[t] += s[t + 8]`, `s[t] = max(s[t], s[t + 8])`.
_STEP = re.compile(
    r"\b([A-Za-z_]\w*)\s*\[[^\[\];]+\]\s*[-+*|&^]?=(?!=)[^;]*?\b\1\s*\[[^\[\];]*\+\s*(\d+)\s*\]"
)
_BLOCK_WAITS = re.compile(r"\b__syncthreads|\bsync\s*\(\s*\w*block|\bblock\w*\s*\.\s*sync\b|\bbar\.sync")
_HALVES = re.compile(r"\b([A-Za-z_]\w*)\s*(?:>>=\s*1\b|/=\s*2\b|=\s*\1\s*(?:>>\s*1|/\s*2)\b)")
_STARTS_IN_WARP = re.compile(r"=\s*(?:16|8|warpSize\s*/\s*2|WARP_?SIZE\s*/\s*2)\s*;", re.IGNORECASE)
_DISTANCES = frozenset({"16", "8", "4", "2", "1"})


class WarpTree(msgspec.Struct, frozen=True):
    """One such tree."""

    #: The first step, or the loop's head.
    span: Span
    #: The array, as written.
    name: str
    steps: int
    #: The device function that it stands in; "" for the kernel itself.
    function: str


def warp_trees(tree: SourceTree, kernel: Kernel) -> tuple[WarpTree, ...]:
    """Those of the kernel's own text, then those of the device functions of its file that it calls."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    body = expanded.function.body
    code = expanded.tree.code_of(body)
    shared = frozenset(a.name for a in kernel.arrays if a.space == "shared")
    if not shared:
        return ()
    found = list(_in_body(expanded.tree, body, "", shared))
    for name in sorted(called_names(tree, code)):
        for function in functions_named(tree, name):
            if function.is_device and "[" in tree.code_of(function.body):
                found += _in_body(tree, function.body, name, None)
    return tuple(found)


def _in_body(
    tree: SourceTree, body: Node, function: str, shared: frozenset[str] | None
) -> Iterator[WarpTree]:
    """Those of one body; of a called function without regard to what its arrays are."""
    code = tree.code_of(body)
    if "+" not in code or "__shfl" in code:
        return
    yield from _written(tree, body, code, function, shared)
    for loop in walk(body):
        if loop.type in LOOPS and (name := _looped(tree, loop)) and (shared is None or name in shared):
            yield WarpTree(tree.span(loop), name, 5, function)


def _written(
    tree: SourceTree, body: Node, code: str, function: str, shared: frozenset[str] | None
) -> Iterator[WarpTree]:
    """The steps that are written one by one, for each stretch without a barrier of the block."""
    cuts = [0, *(m.end() for m in _BLOCK_WAITS.finditer(code)), len(code)]
    for first, last in itertools.pairwise(cuts):
        steps = [m for m in _STEP.finditer(code, first, last) if m[2] in _DISTANCES]
        by_name: dict[str, list[re.Match[str]]] = {}
        for step in steps:
            if shared is None or step[1] in shared:
                by_name.setdefault(step[1], []).append(step)
        for name, found in by_name.items():
            if len({m[2] for m in found}) >= FEWEST:
                start = body.start_byte + len(code[: found[0].start()].encode())
                end = body.start_byte + len(code[: found[0].end()].encode())
                yield WarpTree(tree.text_span(start, end), name, len(found), function)


def _looped(tree: SourceTree, loop: Node) -> str:
    """The array of a loop that halves a distance from within a warp and waits for no block; "" where it is none."""
    body = loop.child_by_field_name("body")
    code = tree.code_of(loop)
    if body is None or _BLOCK_WAITS.search(code) or any(n.type in LOOPS for n in walk(body)):
        return ""
    halves = _HALVES.search(code)
    if halves is None or not _STARTS_IN_WARP.search(code[: body.start_byte - loop.start_byte]):
        return ""
    step = re.search(
        rf"\b([A-Za-z_]\w*)\s*\[[^\[\];]+\]\s*[-+*|&^]?=(?!=)[^;]*?\b\1\s*\[[^\[\];]*\+\s*{halves[1]}\s*\]",
        tree.code_of(body),
    )
    return step[1] if step is not None else ""
