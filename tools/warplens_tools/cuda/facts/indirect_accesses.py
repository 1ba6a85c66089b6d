# SPDX-License-Identifier: Apache-2.0
"""Accesses whose place data chooses: `table[ids[i] * width + lane]`, as forms in which what is loaded is a symbol."""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.facts.accesses import ArrayAccess, accesses_read_by
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import Form, Symbol
from warplens_tools.cuda.values.kernel_tree import kernel_tree

#: The operation of a symbol that stands for a loaded element.
LOADED = "loaded"


def indirect_accesses(
    tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3
) -> tuple[ArrayAccess, ...]:
    """The kernel's global accesses whose index holds a `LOADED` symbol, in text order."""
    key = ("chosen places", kernel.span, kernel.name, block)
    return tree.remembered(key, lambda: _chosen(tree, kernel, block))


def _chosen(tree: SourceTree, kernel: Kernel, block: Dim3) -> tuple[ArrayAccess, ...]:
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    every = accesses_read_by(_LoadedReader(expanded, block), kernel)
    return tuple(a for a in every if a.space == "global" and _is_chosen(a.index))


def _is_chosen(index: Form | None) -> bool:
    return index is not None and any(s.operation == LOADED for s in index.symbols)


class _LoadedReader(FormReader):
    """Takes every element of an array for a symbol of its own."""

    def form(self, node: Node | None) -> Form | None:
        """As `FormReader.form`."""
        found = super().form(node)
        if found is None and node is not None and node.type == "subscript_expression":
            return forms.variable(Symbol(self.tree.code_of(node), "derived", LOADED))
        return found
