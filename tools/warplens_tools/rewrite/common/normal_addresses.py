# SPDX-License-Identifier: Apache-2.0
"""Pointers that begin at an element's address, in the form that rewrites read: `&data[i * n]` as `data + i * n`."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.common.normal_bounds import BoundReader, bare
from warplens_tools.text import SourceText, TextEdit

#: What binds less tightly than a sum.
_LOOSE = re.compile(r"[?<>&|^=,]")


def addresses_added(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edit of the first pointer of a kernel that begins so; () where none does."""
    reader = BoundReader(text, file, kernel)
    for node in walk(reader.body) if reader.body is not None else ():
        declarator = node.child_by_field_name("declarator") if node.type == "init_declarator" else None
        if declarator is None or declarator.type != "pointer_declarator":
            continue
        element = _element(reader, node)
        listed = element.child_by_field_name("indices") if element is not None else None
        base = element.child_by_field_name("argument") if element is not None else None
        value = node.child_by_field_name("value")
        if listed is None or base is None or value is None or listed.named_child_count != 1:
            continue
        index = text.slice(file.span(listed.named_children[0]))
        index = f"({index})" if _LOOSE.search(index) else index
        return (TextEdit(file.span(value), f"{reader.code(base)} + {index}"),)
    return ()


def _element(reader: BoundReader, node: Node) -> Node | None:
    """The element whose address a pointer is given, of an array or pointer that is named."""
    value = bare(node.child_by_field_name("value"))
    if value is None or value.type != "pointer_expression" or not reader.code(value).startswith("&"):
        return None
    inner = bare(value.child_by_field_name("argument"))
    base = inner.child_by_field_name("argument") if inner is not None else None
    parameters = {p.name for p in reader.kernel.parameters if p.pointer}
    named = base is not None and base.type == "identifier" and reader.code(base) in parameters
    return inner if inner is not None and inner.type == "subscript_expression" and named else None
