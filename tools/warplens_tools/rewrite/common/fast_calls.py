# SPDX-License-Identifier: Apache-2.0
"""Calls of functions of floats as calls of the special function units' own, in a kernel and in what it alone calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.rewrite.base import Target
from warplens_tools.rewrite.common.reading import View, calls, field
from warplens_tools.text import TextEdit


class FastCalls:
    """The edits that put fast functions in place of those of a table, `{"expf": "__expf"}`."""

    def __init__(self, view: View, types: TypeReader, fast: Mapping[str, str]) -> None:
        self._view, self._types, self._fast = view, types, fast
        self._overloaded = {name.removesuffix("f"): short for name, short in fast.items()}

    def edits(self, target: Target) -> list[TextEdit]:
        """Of the kernel's calls on the target's lines; without lines, of functions that it alone calls too."""
        found: list[TextEdit] = []
        for node in walk(self._view.body):
            on_line = not target.lines or self._view.span(node).line in target.lines
            if node.type == "call_expression" and on_line:
                found += self._call(node)
        return found if target.lines else [*found, *self._in_helpers()]

    def _call(self, node: Node) -> list[TextEdit]:
        view, function = self._view, field(node, "function")
        name = view.code(function).removeprefix("::").removeprefix("std::")
        fast = self._fast.get(name)
        if fast is None and name in self._overloaded and self._types.type(node) == "float":
            fast = self._overloaded[name]
        is_plain = view.written(function).endswith(name)
        return [TextEdit(view.span(function), fast)] if fast is not None and is_plain else []

    def _in_helpers(self) -> Iterator[TextEdit]:
        """The same in functions of the device that the kernel alone calls; what another kernel calls stays."""
        tree = self._view.file
        for function in own_helpers(self._view):
            for node in walk(field(function, "body")):
                callee = node.child_by_field_name("function") if node.type == "call_expression" else None
                fast = (
                    self._fast.get(tree.code_of(callee).removeprefix("std::")) if callee is not None else None
                )
                if callee is not None and fast is not None and tree.text_of(callee) == tree.code_of(callee):
                    yield TextEdit(tree.span(callee), fast)


def own_helpers(view: View) -> Iterator[Node]:
    """The functions of the device, of the file's tree, that the kernel calls and nothing else does."""
    tree, kernel = view.file, view.kernel.span
    called = {name.split("<")[0] for name, _ in calls(view.body, view)}
    for function in tree.functions:
        body, declarator = (function.child_by_field_name(name) for name in ("body", "declarator"))
        if body is None or declarator is None:
            continue
        head = tree.masked.code[function.start_byte : body.start_byte].decode("ascii")
        name = next((word for word in called if re.search(rf"\b{re.escape(word)}\s*\(", head)), "")
        if not name or "__device__" not in head or "__host__" in head or "__global__" in head:
            continue
        own, uses = tree.span(function), re.finditer(rf"\b{name}\b", view.text.text)
        places = [view.text.span(m.start(), m.end()) for m in uses]
        if all(kernel.contains(place) or own.contains(place) for place in places):
            yield function
