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
        head = tree.words(max(0, function.start_byte - 80), function.start_byte) + tree.code_of(function)
        if _DEVICE.search(head) and _WIDE.search(tree.code_of(function)):
            return True
    return False
