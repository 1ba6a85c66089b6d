# SPDX-License-Identifier: Apache-2.0
"""Structures that a kernel is passed, by value or by a pointer, and whose members it leaves as they are."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.bindings import Binding
from warplens_tools.cuda.values.kernel_tree import KernelTree

_POINTED = re.compile(r"(\w+)->\w+")


def is_kept_whole(tree: SourceTree, binding: Binding) -> bool:
    """Whether nothing sets the parameter or a member of it."""
    code = tree.masked.code[binding.declaration[1] : binding.end].decode("ascii")
    return not re.search(rf"\b{binding.name}\s*(?:(?:\.|->)\s*[\w.]+\s*)?(?:=(?!=)|[-+*/]=|\+\+|--)", code)


def pointed_member(kernel: KernelTree, node: Node) -> str:
    """`m->rows`, as written without blanks, where `m` is a parameter of a kernel, which leads all threads to one
    structure, and the kernel leaves it as it is; "" where it is none."""
    if not kernel.function.is_kernel:
        return ""
    path = "".join(kernel.tree.code_of(node).split())
    found = _POINTED.fullmatch(path)
    binding = kernel.constants.binding(found[1], node.start_byte) if found is not None else None
    if binding is None or binding.kind != "pointer" or binding.start >= kernel.function.body.start_byte:
        return ""
    return path if is_kept_whole(kernel.tree, binding) else ""
