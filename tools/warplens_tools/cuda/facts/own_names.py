# SPDX-License-Identifier: Apache-2.0
"""Names of the standard library that a file has for something of its own."""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.syntax.callees import functions_named
from warplens_tools.cuda.values.kernel_tree import KernelTree


def is_own(expanded: KernelTree, name: str, at: Node) -> bool:
    """Whether the file has a function, a variable (as of a lambda) or a macro of that name where the node stands."""
    file, scopes = expanded.tree.file, expanded.constants.scopes()
    visible = scopes.visible(name, at.start_byte)
    return bool(functions_named(file, name) or visible) or file.macros.get(name) is not None
