# SPDX-License-Identifier: Apache-2.0
"""Branches whose condition is data that each lane loads for itself: whether lanes agree, only a run shows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.lane_branches import LaneBranch
from warplens_tools.cuda.facts.lane_names import lane_names
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, is_looped, walk
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.text import Span

_WORD = re.compile(r"[A-Za-z_]\w*")
#: `.x` of `threadIdx.x`: a member's name says nothing of a variable's.
_MEMBER = re.compile(r"(?:\.|->)\s*[A-Za-z_]\w*")
#: A name that no subscript follows; the name that one does.
_UNINDEXED = re.compile(r"\b[A-Za-z_]\w*\b(?!\s*\[)")
#: `*count`, as a bound is read through a pointer, and nothing added to it.
_ONE_NUMBER = re.compile(r"(^|[-(<>=!&|+/%,?:])\s*\*\s*([A-Za-z_]\w*)\b(?!\s*(?:\[|->|\+\+|--))")
_BASE = re.compile(r"\b([A-Za-z_]\w*)\s*$")
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)?(?:[-+*/%&|^]|<<|>>)?=(?!=)([^;{}]*)")


def data_branches(tree: SourceTree, kernel: Kernel) -> tuple[LaneBranch, ...]:
    """Every `switch` and `if … else` of the kernel on such data, in text order; its sides count as equally likely."""
    expanded = kernel_tree(tree, kernel)
    return () if expanded is None else tuple(_branches(expanded, kernel))


def data_guards(tree: SourceTree, kernel: Kernel) -> tuple[tuple[int, Span], ...]:
    """Every `if` without `else` on such data that stands in a loop: the line of its test, and what it guards."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    names, span = names_in(expanded, kernel), expanded.tree.span
    found = []
    for node in walk(expanded.function.body):
        test, then = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        if (
            node.type != "if_statement"
            or test is None
            or then is None
            or node.child_by_field_name("alternative")
        ):
            continue
        if is_looped(node, expanded.function.body) and is_data(expanded, test, names):
            found.append((span(test).line, span(then)))
    return tuple(found)


def _branches(expanded: KernelTree, kernel: Kernel) -> Iterator[LaneBranch]:
    names, span = names_in(expanded, kernel), expanded.tree.span
    for node in walk(expanded.function.body):
        test = node.child_by_field_name("condition")
        if test is None or not is_data(expanded, test, names):
            continue
        sides: list[Span] = []
        if node.type == "switch_statement":
            body = node.child_by_field_name("body")
            cases = [] if body is None else [c for c in body.named_children if c.type == "case_statement"]
            # Labels that fall through to the next one hold nothing of their own.
            sides = [span(c) for c in cases if c.named_child_count > 1]
        elif node.type == "if_statement" and not _is_chained(node):
            sides = _chain(expanded, node)
        if len(sides) > 1:
            share = 1.0 / len(sides)
            yield LaneBranch(span(test), sides[0], None, share, tuple((s, share) for s in sides[1:]))


def _chain(expanded: KernelTree, node: Node) -> list[Span]:
    """The sides of `if … else if … else …`; none of an `if` without `else`."""
    sides: list[Span] = []
    at: Node | None = node
    while at is not None and at.type == "if_statement":
        then, other = at.child_by_field_name("consequence"), at.child_by_field_name("alternative")
        if then is not None:
            sides.append(expanded.tree.span(then))
        at = other.named_children[-1] if other is not None and other.named_child_count else None
        if at is not None and at.type != "if_statement":
            sides.append(expanded.tree.span(at))
    return sides if len(sides) > 1 else []


def _is_chained(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "else_clause"


class BodyNames(msgspec.Struct, frozen=True):
    """Names of a kernel's body."""

    lanes: frozenset[str]
    pointers: frozenset[str]
    #: What lanes loaded, each from its own place, or what comes of that.
    data: frozenset[str]


def is_data(expanded: KernelTree, test: Node, names: BodyNames) -> bool:
    """Whether a condition hangs on what each lane loads for itself."""
    code = expanded.tree.code_of(test)
    return bool(_words(code) & names.data) or _loads(code, names.pointers, names.lanes)


def _loads(code: str, pointers: frozenset[str], lanes: frozenset[str]) -> bool:
    """Whether an expression loads from a place that differs between lanes: `a[i]`, `row[0]` of a row that does,
    `*(p + i)`; in `i * extents[1]` and `i < *count` all lanes load one number."""
    code = _ONE_NUMBER.sub(lambda found: f"{found[1]} 0 " if found[2] in pointers - lanes else found[0], code)
    used = _words(code)
    if not used & lanes:
        return False
    if used & pointers and set(_UNINDEXED.findall(code)) & pointers:
        return True
    return any(base in lanes or _words(index) & lanes for base, index in _subscripts(code))


def _subscripts(code: str) -> Iterator[tuple[str, str]]:
    """Every `base[index]` of an expression, the name before the bracket ("" for none) and what stands in it."""
    opened: list[int] = []
    for at, char in enumerate(code):
        if char == "[":
            opened.append(at)
        elif char == "]" and opened:
            start = opened.pop()
            base = _BASE.search(code, 0, start)
            yield (base[1] if base else ""), code[start + 1 : at]


def names_in(expanded: KernelTree, kernel: Kernel) -> BodyNames:
    """The names of a kernel's body by what flows into them."""
    key = ("body names", kernel.span, kernel.name)
    return expanded.tree.remembered(key, lambda: _names_in(expanded, kernel))


def _names_in(expanded: KernelTree, kernel: Kernel) -> BodyNames:
    code = _MEMBER.sub("", expanded.tree.code_of(expanded.function.body))
    lanes, pointers = lane_names(code), frozenset(p.name for p in kernel.parameters if p.pointer)
    given = {p.name for p in kernel.parameters}
    assigned = [
        (name, _words(value), _loads(value, pointers, lanes))
        for name, value in ((name, _own(value)) for name, value in _ASSIGNED.findall(code))
        # What is stored through a member of a parameter does not change the parameter.
        if name in lanes and name not in given
    ]
    data: set[str] = set()
    grown = True
    while grown:
        new = {name for name, used, loaded in assigned if loaded or used & data} - data
        grown = bool(new)
        data |= new
    return BodyNames(lanes, pointers, frozenset(data))


def _own(value: str) -> str:
    """Without what follows the bracket that a value stands in: `4) if (…) …` of `for (…; i += 4) if (…) …`."""
    depth = 0
    for at, char in enumerate(value):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return value[:at]
    return value


def _words(code: str) -> set[str]:
    return set(_WORD.findall(_MEMBER.sub("", code)))
