# SPDX-License-Identifier: Apache-2.0
"""Kernels that a macro writes: `DEFINE_SCALE(scale_f, float)`, `KERNEL(scale)(float* a) { … }`.

The kernel's expansion is parsed as a text of its own. What the macro wrote stands, for the user, where
the macro is used; what follows the use in the text stands where it is.
"""

from __future__ import annotations

from warplens_tools.cuda.syntax.functions import Function, find_functions
from warplens_tools.cuda.syntax.macros import MacroUse
from warplens_tools.cuda.syntax.tree import SourceTree, parse_expansion
from warplens_tools.text import Span


def expanded_kernel(tree: SourceTree, use: MacroUse, end: int) -> tuple[SourceTree, Function] | None:
    """The kernel that `use` begins and that ends at offset `end`, expanded; None if it holds none."""
    expansion = use.expansion
    rest = tree.text.text[use.end : end]

    def place(start: int, stop: int) -> Span:
        begin = use.start if start < len(expansion) else start - len(expansion) + use.end
        last = use.end if stop <= len(expansion) else stop - len(expansion) + use.end
        return tree.text_span(begin, last)

    inner = parse_expansion(expansion + rest, tree, place)
    kernels = [f for f in find_functions(inner) if f.is_kernel]
    return (inner, kernels[0]) if kernels else None


def argument_span(tree: SourceTree, use: MacroUse, text: str) -> Span | None:
    """Where a use's argument of exactly this text stands."""
    written = tree.text.text[use.start : use.end]
    for index in range(len(use.name), len(written)):
        if written.startswith(text, index) and not _inside_word(written, index, index + len(text)):
            return tree.text_span(use.start + index, use.start + index + len(text))
    return None


def _inside_word(text: str, start: int, end: int) -> bool:
    return (text[start - 1].isalnum() or text[start - 1] == "_") or (
        end < len(text) and (text[end].isalnum() or text[end] == "_")
    )
