# SPDX-License-Identifier: Apache-2.0
"""Tests of each thread's own data around what a kernel does: `if (frontier[v])`, `if (!active[v]) return;`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.data_branches import BodyNames, is_data, names_in
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.text import Span

#: `(count[c] > 0)` and its like: that an element is not zero.
_POSITIVE = re.compile(r"\(*([A-Za-z_]\w*\[[^\[\]]*\])(?:>|!=|>=)(?:0|1|0?\.0*f?|0\.0*f?)\)*")
_ORDERS = frozenset({"<", ">", "<=", ">="})


class Gate(msgspec.Struct, frozen=True):
    """One such test, and what only threads that pass it do."""

    condition: Span
    behind: Span


def gates(tree: SourceTree, kernel: Kernel) -> tuple[Gate, ...]:
    """Those of a kernel outside of loops, outermost first."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    return tuple(_gates(expanded, expanded.function.body, names_in(expanded, kernel)))


def _gates(expanded: KernelTree, block: Node, names: BodyNames) -> Iterator[Gate]:
    """In a block's statements, and in the blocks of tests that are of no data: bounds of the launch."""
    span = expanded.tree.span
    statements = block.named_children if block.type == "compound_statement" else [block]
    for at, node in enumerate(statements):
        test, then = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        if node.type != "if_statement" or test is None or then is None:
            continue
        if node.child_by_field_name("alternative") is not None:
            continue
        leaves = _leaves(then)
        if _holds_elements_together(expanded, test) or _guards_quotient(expanded, test, then):
            continue
        if is_data(expanded, test, names) and "[" in expanded.tree.code_of(test):
            if not leaves:
                yield Gate(span(test), span(then))
            elif statements[at + 1 :]:
                first, last = span(statements[at + 1]), span(statements[-1])
                yield Gate(span(test), Span(first.line, first.column, last.end_line, last.end_column))
        elif not leaves:
            yield from _gates(expanded, then, names)


def _holds_elements_together(expanded: KernelTree, test: Node) -> bool:
    """Whether two elements of one array are compared, as a sort does: that says nothing of who has work."""
    for node in walk(test):
        operator = node.child_by_field_name("operator") if node.type == "binary_expression" else None
        if operator is None or operator.type not in _ORDERS:
            continue
        left, right = (node.child_by_field_name(side) for side in ("left", "right"))
        if left is not None and right is not None and _arrays(expanded, left) & _arrays(expanded, right):
            return True
    return False


def _guards_quotient(expanded: KernelTree, test: Node, then: Node) -> bool:
    """Whether a test keeps from a division by zero: few are without elements, rather than with work."""
    code, behind = ("".join(expanded.tree.code_of(n).split()) for n in (test, then))
    found = _POSITIVE.fullmatch(code)
    return found is not None and re.search(rf"/=?(?:\([^()]*\))?{re.escape(found[1])}", behind) is not None


def _arrays(expanded: KernelTree, within: Node) -> set[str]:
    """What is indexed in an expression, as written."""
    bases = (n.child_by_field_name("argument") for n in walk(within) if n.type == "subscript_expression")
    return {expanded.tree.code_of(base) for base in bases if base is not None}


def _leaves(then: Node) -> bool:
    """Whether a branch does nothing but leave the kernel."""
    kinds = {n.type for n in walk(then)}
    return "return_statement" in kinds and not kinds & {*LOOPS, "call_expression", "assignment_expression"}
