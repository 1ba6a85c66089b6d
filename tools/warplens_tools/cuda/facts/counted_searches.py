# SPDX-License-Identifier: Apache-2.0
"""Searches that count up: loops that do nothing but move a number on until a formula of it, an element that it names,
or the sum of the elements so far passes a limit."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.lane_names import lane_names, mentions_lanes
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.callees import called_names, functions_named
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

_STEP = re.compile(r"\{?(?:(?:\+\+|--)([A-Za-z_]\w*)|([A-Za-z_]\w*)(?:\+\+|--|[-+]=1));?\}?")
_ORDERED = re.compile(r"(?<![<>=-])[<>]=?(?![<>=])")
#: More than the number itself, or it and one other: a product, an element, what a function makes of it.
_MADE = re.compile(r"[*(\[]")


#: `sum += weights[j];`, the name and what is added.
_SUM = re.compile(
    r"(?<![\w.\]])([A-Za-z_]\w*)\s*\+=\s*((?:\([^()]*\)\s*)?[A-Za-z_][\w.>-]*\s*\[[^\[\]]*\][\w.]*)\s*;"
)
#: A way out of the loop around: the test before it.
_LEAVES = re.compile(r"\bif\s*\(([^{};]*)\)\s*(?:\{[^{}]*?)?\b(?:break|return)\b")


class CountedSearch(msgspec.Struct, frozen=True):
    """One such loop."""

    span: Span
    #: What is counted, and what must hold for it to go on, as written.
    name: str
    test: str


def counted_searches(tree: SourceTree, kernel: Kernel) -> tuple[CountedSearch, ...]:
    """Those of the kernel's own text, then of the device functions of its file that it calls."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    code = expanded.tree.code_of(expanded.function.body)
    found = list(_in_body(expanded.tree, expanded.function.body)) if "while" in code else []
    for name in sorted(called_names(tree, code)):
        for function in functions_named(tree, name):
            if function.is_device and "while" in tree.code_of(function.body):
                found += _in_body(tree, function.body)
    return tuple(found)


def running_sums(tree: SourceTree, kernel: Kernel) -> tuple[CountedSearch, ...]:
    """Loops of the kernel's own text that add up elements, the same ones in each thread, until the sum passes a limit:
    a draw by weights."""
    expanded = kernel_tree(tree, kernel)
    code = expanded.tree.code_of(expanded.function.body) if expanded is not None else ""
    if expanded is None or "+=" not in code:
        return ()
    varying = lane_names(code)
    found = (_summed(expanded.tree, n, varying) for n in walk(expanded.function.body) if n.type in LOOPS)
    return tuple(s for s in found if s is not None)


def _summed(tree: SourceTree, loop: Node, varying: frozenset[str]) -> CountedSearch | None:
    test, body = loop.child_by_field_name("condition"), loop.child_by_field_name("body")
    code = tree.code_of(body) if body is not None else ""
    ways_out = [*_LEAVES.findall(code), *([tree.code_of(test)] if test is not None else [])]
    for name, added in _SUM.findall(code):
        compared = re.compile(rf"\b{name}\b\s*[<>]=?(?![<>])|(?<![<>=-])[<>]=?\s*\b{name}\b")
        way_out = next((w for w in ways_out if compared.search(w) and f"{name}[" not in w), None)
        if way_out is not None and not mentions_lanes(added, varying):
            return CountedSearch(tree.span(loop), name, " ".join(way_out.split()))
    return None


def _in_body(tree: SourceTree, body: Node) -> Iterator[CountedSearch]:
    for node in walk(body):
        search = _read(tree, node) if node.type == "while_statement" else None
        if search is not None and _begins_at_constant(tree, body, node, search.name):
            yield search


def _begins_at_constant(tree: SourceTree, body: Node, loop: Node, name: str) -> bool:
    """Whether the number was set to constants alone: what was worked out is corrected by a step or two."""
    before = tree.code_of(body)[: loop.start_byte - body.start_byte]
    set_to = re.findall(rf"\b{name}\s*=(?!=)\s*([^;,]+)[;,]", before)
    return bool(set_to) and all(value.strip().isdecimal() for value in set_to)


def _read(tree: SourceTree, loop: Node) -> CountedSearch | None:
    test, body = loop.child_by_field_name("condition"), loop.child_by_field_name("body")
    step = _STEP.fullmatch("".join(tree.code_of(body).split())) if body is not None else None
    if test is None or step is None:
        return None
    name = step[1] or step[2]
    parts = [n for n in walk(test) if n.type == "binary_expression" and _compares(tree, n, name)]
    return CountedSearch(tree.span(loop), name, " ".join(tree.code_of(parts[0]).split())) if parts else None


def _compares(tree: SourceTree, node: Node, name: str) -> bool:
    """Whether a comparison asks how large something made of the number is."""
    sign = node.child_by_field_name("operator")
    if sign is None or _ORDERED.fullmatch(sign.type) is None:
        return False
    sides = [node.child_by_field_name(side) for side in ("left", "right")]
    said = [tree.code_of(side) for side in sides if side is not None]
    return any(re.search(rf"\b{name}\b", code) and _MADE.search(code) for code in said)
