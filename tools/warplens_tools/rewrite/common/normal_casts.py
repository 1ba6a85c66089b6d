# SPDX-License-Identifier: Apache-2.0
"""Conversions of thread and block numbers, in the form that rewrites read: `static_cast<int64_t>(blockIdx.x)` as
`(int64_t)blockIdx.x`, and so `int64_t(blockIdx.x)`.
"""

from __future__ import annotations

import re

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.common.normal_bounds import BoundReader
from warplens_tools.text import SourceText, TextEdit

_CAST = re.compile(r"(?:static_cast\s*<\s*([\w\s:]+?)\s*>|([\w:]+))")
_NUMBERS = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\b")
_ALONE = re.compile(r"[\w.]+")


def casts_plain(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edit of one conversion; () where there is none."""
    reader = BoundReader(text, file, kernel)
    for node in walk(reader.body) if reader.body is not None else ():
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if node.type != "call_expression" or listed is None or listed.named_child_count != 1:
            continue
        cast = _CAST.fullmatch(reader.code(function))
        kind = (cast[1] or cast[2]) if cast is not None else ""
        inner = listed.named_children[0]
        if integer_type(kind.removeprefix("std::")) is None or not _NUMBERS.search(reader.code(inner)):
            continue
        written = text.slice(file.span(inner))
        plain = written if _ALONE.fullmatch(written) else f"({written})"
        return (TextEdit(file.span(node), f"({kind}){plain}"),)
    return ()
