# SPDX-License-Identifier: Apache-2.0
"""Loops in which the thread of one element goes through all others, by how they are written: up to the number of
elements that the thread's own index is held against, leaving itself out (`if (j == i) continue;`), or from behind
itself on (`for (int j = i + 1; j < n; ++j)`)."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.lane_names import lane_names
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.cuda.values.loop_headers import compared_with, condition_of, initialised
from warplens_tools.text import Span

_NAME = re.compile(r"[A-Za-z_]\w*")
_LEFT_OUT = re.compile(r"(?<![\w.>\]])([A-Za-z_]\w*)\s*[!=]=\s*([A-Za-z_]\w*)\b(?!\s*[\[.(]|->)")
_CALL = re.compile(r"\b(?!(?:if|while|for|switch)\b)\w+\s*\(([^()]*)\)")
_BEHIND = re.compile(r"([A-Za-z_]\w*)\+1")


class PairLoop(msgspec.Struct, frozen=True):
    """One such loop."""

    span: Span
    #: The loop's variable and the thread's own index, as written.
    other: str
    own: str


def pair_loops(tree: SourceTree, kernel: Kernel) -> tuple[PairLoop, ...]:
    """Those of the kernel's own text, in text order."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    body = expanded.function.body
    code = expanded.tree.code_of(body)
    lanes = lane_names(code)
    found = []
    for loop in walk(body):
        pair = _pair(expanded.tree, loop, code, lanes) if loop.type == "for_statement" else None
        if pair is not None:
            found.append(PairLoop(expanded.tree.span(loop), *pair))
    return tuple(found)


def _pair(tree: SourceTree, loop: Node, code: str, lanes: frozenset[str]) -> tuple[str, str] | None:
    """The variable of a loop over all elements, and the index of the thread's own."""
    variable, first = initialised(loop)
    inside = loop.child_by_field_name("body")
    if variable is None or first is None or inside is None:
        return None
    other = tree.code_of(variable)
    sign, bound = compared_with(tree, condition_of(loop), other)
    if sign not in ("<", "!=") or bound is None:
        return None
    begins, within = "".join(tree.code_of(first).split()), tree.code_of(inside)
    behind = _BEHIND.fullmatch(begins)
    if behind is not None:
        pairs = [behind[1]]
    elif begins == "0":
        compared = _LEFT_OUT.findall(within)
        pairs = [b if a == other else a for a, b in compared if other in (a, b)]
    else:
        return None
    own = next((name for name in pairs if name in lanes), None)
    if own is None or not _is_held_against(code, own, tree.code_of(bound)):
        return None
    return (other, own) if _meets(code, within, own, other) else None


def _meets(code: str, within: str, own: str, other: str) -> bool:
    """Whether elements of one array are read at both places, or both are handed to a function; `a[i * n + j]` is one
    element of a matrix."""
    here, there = _read_at(code, own, other), _read_at(within, other, own)
    calls = (set(_NAME.findall(call)) for call in _CALL.findall(within))
    return bool(here & there) or any({own, other} <= names for names in calls)


def _read_at(code: str, name: str, without: str) -> set[str]:
    found = re.findall(rf"(\w+)\s*\[([^\]]*\b{name}\b[^\]]*)\](?!\s*=[^=])", code)
    return {array for array, index in found if without not in _NAME.findall(index)}


def _is_held_against(code: str, own: str, bound: str) -> bool:
    """Whether the thread's index is below the same number, or others leave."""
    plain, number = "".join(code.split()), re.escape("".join(bound.split()))
    return bool(
        re.search(rf"(?<![\w.>\]]){own}(?:<|>=|>){number}(?![\w.(\[])", plain)
        or re.search(rf"(?<![\w.>\]]){own}<{number}-1(?![\w.(\[])", plain)
    )
