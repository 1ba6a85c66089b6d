# SPDX-License-Identifier: Apache-2.0
"""Device memory that a host function allocates around a launch and frees before it returns."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.syntax.callees import calls_of
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.text import Span

_ALLOCATED = re.compile(r"\bcudaMalloc\s*\(\s*(?:\(\s*void\s*\*\s*\*\s*\)\s*)?&\s*([A-Za-z_]\w*)\s*,")
_FREED = re.compile(r"\bcudaFree\s*\(\s*([A-Za-z_]\w*)\s*\)")
#: A benchmark allocates for what it times.
_TIMED = re.compile(r"\bcudaEventRecord\b|\bchrono\b|\b\w*(?:[cC]lock|[tT]imer|_time|Time)\w*\s*\(")
_ONCE = re.compile(
    r"init|setup|set_up|create|alloc|build|prepare|warm_?up|test|bench|example|demo|main|load|read",
    re.IGNORECASE,
)
_NAMED = re.compile(r"([A-Za-z_]\w*)\s*\(")


class HeldArrays(msgspec.Struct, frozen=True):
    """What one call of a function allocates and frees."""

    function: str
    #: The whole function, and its first such allocation.
    span: Span
    first: Span
    arrays: tuple[str, ...]


def allocated_per_call(tree: SourceTree, site: LaunchSite) -> HeldArrays | None:
    """The arrays of a launch that the function around it allocates and frees; None where there is none, in `main`, in
    what takes times or is done once by its name, and where the file calls the function once alone."""
    start = tree.text.offset(site.span.line, site.span.column)
    function = tree.function_at(start, tree.text.offset(site.span.end_line, site.span.end_column))
    name = _name_of(tree, function) if function is not None else ""
    if function is None or name in ("", "main") or _ONCE.search(name) or len(calls_of(tree, name)) == 1:
        return None
    code, first = tree.code_of(function), function.start_byte
    passed = {word for said in site.arguments for word in re.findall(r"[A-Za-z_]\w*", said)}
    made = {m[1]: m for m in _ALLOCATED.finditer(code, 0, start - first) if m[1] in passed}
    freed = {m[1] for m in _FREED.finditer(code, start - first)}
    arrays = tuple(n for n in made if n in freed)
    if not arrays or _TIMED.search(code):
        return None
    at = made[arrays[0]]
    return HeldArrays(name, tree.span(function), tree.text_span(first + at.start(), first + at.end()), arrays)


def _name_of(tree: SourceTree, function: Node) -> str:
    declarator = function.child_by_field_name("declarator")
    named = _NAMED.search(tree.code_of(declarator)) if declarator is not None else None
    return named[1] if named else ""
