# SPDX-License-Identifier: Apache-2.0
"""Limits of a multiple of the thread's number, in the form that rewrites read: of the number itself.

`int at = 3 * i; if (at >= length) return;` goes on for the same threads as `if (i >= (length + 2) / 3) return;`.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.common.normal_bounds import BoundReader, bare
from warplens_tools.text import SourceText, TextEdit

_NUMBER = re.compile(r"\d+")
_TIGHT = re.compile(r"[\w.]+")
#: Variables made of variables are followed this far.
_DEEP = 3


class _Multiple(msgspec.Struct, frozen=True):
    """`by * name + added`; `name` is "" for a constant."""

    by: int
    name: str
    added: int


def multiples_divided(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edit of one limit of a kernel's guards; () where none is of a multiple."""
    reader = _Reader(text, file, kernel)
    for guard in reader.body.named_children if reader.body is not None else ():
        if guard.type in ("declaration", "comment"):
            continue
        condition = guard.child_by_field_name("condition") if guard.type == "if_statement" else None
        if condition is None or guard.child_by_field_name("alternative") is not None:
            break
        for part in walk(condition):
            if part.type == "binary_expression" and (limit := reader.limit(part)) is not None:
                return (TextEdit(file.span(part), limit),)
    return ()


class _Reader(BoundReader):
    """The guards of one kernel."""

    def limit(self, node: Node) -> str | None:
        """`at >= length` by the number that `at` is a multiple of."""
        left, right = bare(node.child_by_field_name("left")), bare(node.child_by_field_name("right"))
        operator = self.code(node.child_by_field_name("operator"))
        if left is None or right is None or operator not in ("<", ">=") or self.body is None:
            return None
        found = self._multiple(left)
        if (
            found is None
            or found.by < 2
            or not 0 <= found.added < found.by
            or not self._is_threads(found.name)
        ):
            return None
        if found.name in self.words(right) or any(self.changes(self.body, n) for n in (found.name,)):
            return None
        written, more = self.text.slice(self.file.span(right)), found.by - 1 - found.added
        total = written if _TIGHT.fullmatch(written) else f"({written})"
        count = f"({total} + {more})" if more else total
        return f"{found.name} {operator} {count} / {found.by}"

    def _is_threads(self, name: str) -> bool:
        """Whether a variable is given a thread's number."""
        value = self._value(name)
        return value is not None and "threadIdx" in self.code(value)

    def _value(self, name: str) -> Node | None:
        """What a variable that is set once begins at."""
        found = list(self.values_of(name))
        if len(found) != 1 or self.body is None or self.changes(self.body, name):
            return None
        return bare(found[0])

    def _multiple(self, node: Node | None, deep: int = 0) -> _Multiple | None:
        """A sum or product of one variable and numbers."""
        inner = bare(node)
        if inner is None or deep > _DEEP:
            return None
        if inner.type == "number_literal" and _NUMBER.fullmatch(self.code(inner)):
            return _Multiple(0, "", int(self.code(inner)))
        if inner.type == "identifier":
            value = self._value(self.code(inner))
            if value is None or "threadIdx" in self.code(value):
                return _Multiple(1, self.code(inner), 0) if value is not None else None
            return self._multiple(value, deep + 1)
        if inner.type != "binary_expression":
            return None
        sides = (self._multiple(inner.child_by_field_name(side), deep) for side in ("left", "right"))
        left, right = sides
        if left is None or right is None or (left.name and right.name):
            return None
        name, operator = left.name or right.name, self.code(inner.child_by_field_name("operator"))
        if operator == "+":
            return _Multiple(left.by + right.by, name, left.added + right.added)
        if operator == "*":
            one, factor = (left, right.added) if not right.name else (right, left.added)
            return _Multiple(one.by * factor, name, one.added * factor)
        return None
