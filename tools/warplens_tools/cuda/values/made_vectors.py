# SPDX-License-Identifier: Apache-2.0
"""Vectors of integers that are made of their members: `const int2 at = make_int2(x, y)`, `uint3 at{x, y, z}`."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.bindings import Binding, value_node
from warplens_tools.cuda.values.writes import is_set_once

_MAKERS = re.compile(r"(?:make_)?(?:u?(?:int|long)[1-4]|dim3)")
_LISTS = frozenset({"argument_list", "initializer_list"})
_MEMBERS = ("x", "y", "z", "w")


def made_of(tree: SourceTree, binding: Binding, member: str) -> Node | None:
    """What a member of a vector is made of, where nothing changes the vector later; None where it is none."""
    if member not in _MEMBERS or not binding.local or not binding.value:
        return None
    value = value_node(tree, binding)
    function = value.child_by_field_name("function") if value is not None else None
    listed = value.child_by_field_name("arguments") if function is not None and value is not None else value
    maker = tree.code_of(function) if function is not None else _declared(tree, binding)
    if listed is None or listed.type not in _LISTS or not _MAKERS.fullmatch(maker):
        return None
    given = [n for n in listed.named_children if n.type != "comment"]
    at = _MEMBERS.index(member)
    return given[at] if at < len(given) and is_set_once(tree, binding) else None


def _declared(tree: SourceTree, binding: Binding) -> str:
    """The type that is written before the name."""
    written = tree.masked.code[binding.declaration[0] : binding.start].decode("ascii")
    words = [
        w for w in re.findall(r"\w+", written) if w not in ("const", "constexpr", "static", binding.name)
    ]
    return words[0] if words else ""
