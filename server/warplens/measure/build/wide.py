# SPDX-License-Identifier: Apache-2.0
"""Whether device code means to compute in 64 bits."""

from __future__ import annotations

import re

from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.text import SourceText

_WIDE = re.compile(r"\b(?:std::)?(?:size_t|ssize_t|ptrdiff_t|u?int64_t|intptr_t|uintptr_t|long|longlong)\b")
_DEVICE = re.compile(r"\b(?:__global__|__device__)\b")


def means_wide(text: SourceText) -> bool:
    """Whether a function for the device names an integer type of 64 bits."""
    tree = parse_tree(text)
    for function in tree.functions:
        body = function.child_by_field_name("body")
        if body is None:
            continue
        # a macro that was taken out may stand before it, over white space
        start, code = function.start_byte, tree.masked.code
        while start > 0 and code[start - 1] in b" \t\n":
            start -= 1
        if _DEVICE.search(tree.words(start, body.start_byte)) and _WIDE.search(tree.code_of(function)):
            return True
    return False
