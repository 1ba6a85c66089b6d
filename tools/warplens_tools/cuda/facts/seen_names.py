# SPDX-License-Identifier: Apache-2.0
"""Variables without subscripts that other threads of the block see: shared and device ones, and references."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.declarators import read_declarator, read_specifiers
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.kernel_tree import KernelTree

#: What a declaration says of a variable that is not the thread's own.
_SEEN = frozenset({"__shared__", "__device__", "__managed__", "static"})


def seen_names(expanded: KernelTree, kernel: Kernel) -> frozenset[str]:
    """Names that may mean memory which another thread reads or writes, but for arrays: `facts.accesses` has those.

    A name that the kernel changes and that neither it nor its parameters declare is one: it stands in a header.
    """
    tree, body = expanded.tree, expanded.function.body
    own, seen = {p.name for p in kernel.parameters}, set[str]()
    arrays = {a.name for a in kernel.arrays}
    for node in walk(body):
        if node.type != "declaration":
            continue
        words, _ = read_specifiers(tree, node)
        for declarator in node.children_by_field_name("declarator"):
            read = read_declarator(declarator)
            if read.name is None or (name := tree.text_of(read.name)) in arrays:
                continue
            (seen if words & _SEEN or read.reference else own).add(name)
    return frozenset(seen | (set(_changed(tree, body)) - own - arrays))


def _changed(tree: SourceTree, body: Node) -> Iterator[str]:
    """Names that are assigned to, counted, or whose address is taken, as a whole or a member of them."""
    for node in walk(body):
        field = "left" if node.type == "assignment_expression" else "argument"
        if node.type not in ("assignment_expression", "update_expression", "pointer_expression"):
            continue
        place = node.child_by_field_name(field)
        while place is not None and place.type in ("field_expression", "parenthesized_expression"):
            place = place.child_by_field_name("argument") or next(iter(place.named_children), None)
        if place is not None and place.type == "identifier":
            yield tree.text_of(place)
