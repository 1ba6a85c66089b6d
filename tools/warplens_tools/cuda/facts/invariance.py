# SPDX-License-Identifier: Apache-2.0
"""Whether an expression of a kernel is the same in every iteration of a loop."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.arithmetic_types import written_before
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.kernel_tree import KernelTree
from warplens_tools.cuda.values.writes import changes

#: What may differ although no name in it does: memory is written by others, functions have state.
_UNTOLD = frozenset({
    "call_expression", "subscript_expression", "pointer_expression", "update_expression", "assignment_expression",
    "lambda_expression",
})  # fmt: skip
_ARROW = "->"
#: What is written of a variable that other threads or the hardware may change.
_SHARED = re.compile(r"\b(?:__shared__|__device__|__managed__|volatile|extern)\b")


def is_invariant(expanded: KernelTree, node: Node, loop: Node) -> bool:
    """Whether `node` has one value in all iterations of `loop`, as far as the text shows.

    Names that the loop declares or may change are not; nor is what is loaded or returned by a function; nor are names
    of what others may change: shared, device and volatile variables, and references.
    """
    tree, code = expanded.tree, expanded.tree.code_of(loop)
    for child in walk(node):
        if child.type in _UNTOLD or (child.type == "field_expression" and _ARROW in tree.code_of(child)):
            return False
        if child.type == "identifier":
            name = tree.code_of(child)
            binding = expanded.constants.binding(name, child.start_byte)
            is_own = binding is not None and loop.start_byte <= binding.declaration[0] < loop.end_byte
            if is_own or (binding is None and expanded.constants.is_bound(name, child.start_byte)):
                return False
            if binding is not None and (is_others(tree, binding) or changes(tree, code, name)):
                return False
    return True


def is_others(tree: SourceTree, binding: Binding) -> bool:
    """Whether a variable may change by other names or threads: a reference, a shared, device or volatile one."""
    is_reference = tree.masked.code[: binding.start].rstrip().endswith(b"&")
    return is_reference or _SHARED.search(written_before(tree, binding)) is not None
