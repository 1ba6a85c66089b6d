# SPDX-License-Identifier: Apache-2.0
"""Memory that only the blocks of one launch use among themselves, by the text of the host side.

A launch whose last block adds up what all others have left in `partial` leaves its parts there for nobody: `partial` is
a local variable, is allocated, cleared and freed, and passed to that kernel, and nothing else names it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.tunable.source import File, Site

#: What may be called with the variable, or with its address, as the first argument.
_KEEPS = frozenset({"cudaFree", "cudaFreeAsync", "cudaMemset", "cudaMemsetAsync"})
_ALLOCATES = frozenset({"cudaMalloc", "cudaMallocAsync"})
_AROUND = frozenset({"parenthesized_expression", "cast_expression"})
_NOTHING = frozenset({"", "nullptr", "NULL", "0", "{}"})


def unseen_after(file: File, kernel: str) -> frozenset[int]:
    """The pointers of which no launch of another kernel and no host code sees what a launch of this one leaves there.

    Whether a launch of the same kernel does, its text does not tell.
    """
    defined = file.model.kernel(kernel)
    sites = file.launches_of(defined) if defined is not None else ()
    if defined is None or not sites:
        return frozenset()
    return frozenset(
        index
        for index, parameter in enumerate(defined.parameters)
        if parameter.pointer and all(_is_kept(file, site, index, sites) for site in sites)
    )


def _is_kept(file: File, site: Site, index: int, sites: Sequence[Site]) -> bool:
    node = site.arguments[index] if index < len(site.arguments) else None
    binding = file.named(node)
    if node is None or binding is None or binding.kind == "parameter" or site.host is None:
        return False
    passed = {one.arguments[index].start_byte for one in sites if index < len(one.arguments)}
    uses = [use for use in walk(file.tree.root) if _names(file, use, binding)]
    return bool(uses) and all(use.start_byte in passed or _is_harmless(file, use) for use in uses)


def _names(file: File, node: Node, binding: Binding) -> bool:
    if node.type != "identifier" or file.tree.code_of(node) != binding.name:
        return False
    # where it is declared the name may not mean it yet
    first, last = binding.declaration
    return first <= node.start_byte < last or file.named(node) == binding


def _is_harmless(file: File, use: Node) -> bool:
    """Whether it is declared there and not set, allocated, cleared or freed."""
    parent: Node | None = use.parent
    inner, address = use, False
    if parent is not None and parent.type == "pointer_declarator":
        declared = parent.parent
        value = declared.child_by_field_name("value") if declared is not None else None
        return value is None or file.tree.code_of(value) in _NOTHING
    while parent is not None and (parent.type in _AROUND or parent.type == "pointer_expression"):
        if parent.type == "pointer_expression":
            operator = parent.child_by_field_name("operator")
            if address or operator is None or operator.type != "&":
                return False
            address = True
        inner, parent = parent, parent.parent
    if parent is None or parent.type != "argument_list" or parent.named_children[:1] != [inner]:
        return False
    call = parent.parent.child_by_field_name("function") if parent.parent is not None else None
    name = file.tree.code_of(call) if call is not None else ""
    return name in (_ALLOCATES if address else _KEEPS)
