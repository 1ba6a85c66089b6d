# SPDX-License-Identifier: Apache-2.0
"""Loops that an edit leaves by fewer conditions than the original: a search that ends at the first equal hash, not at
the first word that is equal.

Where all that have the one on a run's data have the other, nothing shows it. What is asked before, by a statement that
goes on or leaves, is a condition too; conditions that are written otherwise say nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tree_sitter import Node

from warplens_tools.cuda.syntax.functions import Function
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.tunable.left_out import device_functions
from warplens_tools.tunable.source import File

_LEAVES = frozenset({"break_statement", "return_statement"})
_GOES_ON = _LEAVES | {"continue_statement", "goto_statement"}
_OWNERS = frozenset({"function_definition", "lambda_expression"})


class _Exit(NamedTuple):
    """A statement that leaves a loop, or the function: what the loop asks for, and what is asked before it is left."""

    loop: str
    asked: frozenset[str]


def why_left_early(before: File, after: File) -> str:
    """Which condition an edit does not wait for before it leaves a loop, in words; "" for none."""
    old, new = device_functions(before), device_functions(after)
    for name, was in old.items():
        if name in new and (why := _why(before.tree, was, after.tree, new[name])):
            return f"{why} in {name}"
    return ""


def _why(old_tree: SourceTree, was: Function, new_tree: SourceTree, now: Function) -> str:
    if old_tree.code_of(was.body) == new_tree.code_of(now.body):
        return ""
    old, new = Counter(_exits(old_tree, was)), Counter(_exits(new_tree, now))
    for gone in old - new:
        for anew in new - old:
            if anew.loop == gone.loop and anew.asked < gone.asked:
                lost = min(gone.asked - anew.asked)
                return f"the edit leaves a loop without asking for `{lost}`, which the kernel does"
    return ""


def _exits(tree: SourceTree, function: Function) -> Iterator[_Exit]:
    for node in walk(function.body):
        if node.type in _LEAVES:
            loop, asked = _around(tree, node)
            # what is in no loop is the function's own way out
            if loop is not None:
                yield _Exit(_text(tree, loop.child_by_field_name("condition")), frozenset(asked))


def _around(tree: SourceTree, leaf: Node) -> tuple[Node | None, set[str]]:
    """The loop around a statement, and what is asked there before it is come to."""
    asked = set[str]()
    node: Node = leaf
    while (outer := node.parent) is not None and outer.type not in _OWNERS:
        if outer.type in LOOPS:
            return outer, asked
        if outer.type == "switch_statement" and leaf.type == "break_statement":
            return None, asked
        if outer.type == "if_statement":
            asked |= _asked_of(tree, outer, node)
        elif outer.type == "compound_statement":
            asked |= {
                f"!({_text(tree, one.child_by_field_name('condition'))})"
                for one in outer.named_children
                if one.end_byte <= node.start_byte and _goes_on(one)
            }
        node = outer
    return None, asked


def _asked_of(tree: SourceTree, chosen: Node, side: Node) -> set[str]:
    """What holds on one side of an `if`."""
    condition, consequence = (
        chosen.child_by_field_name("condition"),
        chosen.child_by_field_name("consequence"),
    )
    if condition is None or consequence is None:
        return set()
    if side.id == consequence.id:
        return set(_parts(tree, condition))
    return {f"!({_text(tree, condition)})"} if side.start_byte > consequence.start_byte else set()


def _parts(tree: SourceTree, condition: Node) -> Iterator[str]:
    """What all has to hold."""
    operator = condition.child_by_field_name("operator")
    if (
        condition.type in ("condition_clause", "parenthesized_expression")
        and condition.named_child_count == 1
    ):
        yield from _parts(tree, condition.named_children[0])
    elif condition.type == "binary_expression" and operator is not None and operator.type == "&&":
        for side in ("left", "right"):
            if (part := condition.child_by_field_name(side)) is not None:
                yield from _parts(tree, part)
    else:
        yield _text(tree, condition)


def _goes_on(node: Node) -> bool:
    """Whether an `if` leaves what is below it to those for whom its condition does not hold."""
    if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
        return False
    inner = node.child_by_field_name("consequence")
    if inner is not None and inner.type == "compound_statement":
        inner = inner.named_children[-1] if inner.named_children else None
    return inner is not None and inner.type in _GOES_ON


def _text(tree: SourceTree, node: Node | None) -> str:
    return "".join(tree.code_of(node).split()) if node is not None else ""
