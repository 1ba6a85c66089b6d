# SPDX-License-Identifier: Apache-2.0
"""The device side of a string that PyTorch's `load_inline` compiles: what speaks of PyTorch is blanked, in place.

Positions stay, so edits of what remains are edits of the string. The host functions that launch its kernels by tensors
are gone then; a launch spec says how the kernels are launched instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import parse_tree
from warplens_tools.text import SourceText

_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:torch|ATen|c10|pybind11|caffe2)/[^\n]*", re.MULTILINE
)
_TORCH = re.compile(
    r"\b(?:torch|at|c10|pybind11|py)\s*::|\b(?:PYBIND11_MODULE|TORCH_\w+|AT_DISPATCH\w*|C10_\w+)\b"
)
_DEVICE = re.compile(r"__(?:global|device)__")
_CONTAINERS = frozenset(
    {"translation_unit", "namespace_definition", "declaration_list", "linkage_specification", "ERROR"}
)


def device_side(text: SourceText) -> SourceText:
    """The text without PyTorch's headers and the host code that uses them; the same where it includes none."""
    if not _INCLUDE.search(text.text):
        return text
    code = _INCLUDE.sub(lambda found: _blank(found[0]), text.text)
    for start, end in _of_torch(parse_tree(SourceText(code)).root, code):
        code = code[:start] + _blank(code[start:end]) + code[end:]
    return SourceText(code)


def _of_torch(node: Node, code: str) -> Iterator[tuple[int, int]]:
    """Spans of what stands at file or namespace scope and speaks of PyTorch on the host."""
    for child in node.children:
        if child.type in _CONTAINERS:
            yield from _of_torch(child, code)
            continue
        written = code[child.start_byte : child.end_byte]
        if _TORCH.search(written) and not _DEVICE.search(written):
            yield child.start_byte, child.end_byte


def _blank(written: str) -> str:
    return re.sub(r"[^\n]", " ", written)
