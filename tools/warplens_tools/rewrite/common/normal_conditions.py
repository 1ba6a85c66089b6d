# SPDX-License-Identifier: Apache-2.0
"""Conditions that ask the data beside a thread's number, in the form that rewrites read: the number first, alone.

`if (i < n && text[i] == c) count();` at the end of a kernel becomes `if (i < n) if (text[i] == c) count();`, and so
does `if (i >= n || text[i] != c) return;` before the work. What is evaluated, and in which order, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.comparisons import FLIPPED
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.common.normal_bounds import BoundReader, bare
from warplens_tools.text import SourceText, Span, TextEdit

#: A condition with any of these may ask the data.
_BY_DATA = frozenset({"subscript_expression", "pointer_expression", "call_expression"})
_OPPOSITE = {"==": "!=", "!=": "=="}
_BUILTIN = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[xyz]\b")
_WAITS = re.compile(r"\b__sync|\bgoto\b|\w\s*::\s*this_thread_block")


def conditions_apart(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that take one condition of a kernel apart; () where there is none."""
    reader = _Reader(text, file, kernel)
    inside = [n for n in reader.body.named_children if n.type != "comment"] if reader.body is not None else []
    for place, node in enumerate(inside):
        if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
            continue
        if reader.returns(node):
            edits = reader.guard(node) or reader.left(node, inside[place + 1 :])
        else:
            edits = reader.last(node) if place == len(inside) - 1 else ()
        if edits:
            return edits
    return ()


class _Reader(BoundReader):
    """The conditions of one kernel's own statements."""

    def returns(self, node: Node) -> bool:
        """Whether a condition does nothing but return."""
        then = node.child_by_field_name("consequence")
        only = then
        if then is not None and then.type == "compound_statement":
            inside = [n for n in then.named_children if n.type != "comment"]
            only = inside[0] if len(inside) == 1 else None
        return only is not None and only.type == "return_statement" and not only.named_children

    def guard(self, node: Node) -> tuple[TextEdit, ...]:
        """`if (i >= n || data) return;` as two."""
        plain, asking = self._parts(node, "||")
        condition = node.child_by_field_name("condition")
        if not plain or not asking or condition is None:
            return ()
        then = f"return;{self.text.newline}{self.margin(node)}if"
        new = f"({' || '.join(plain)}) {then} ({' || '.join(asking)})"
        return (TextEdit(self.file.span(condition), new),)

    def last(self, node: Node) -> tuple[TextEdit, ...]:
        """`if (i < n && data) …` as one in the other."""
        plain, asking = self._parts(node, "&&")
        condition = node.child_by_field_name("condition")
        if not plain or not asking or condition is None:
            return ()
        new = f"({' && '.join(plain)}) if ({' && '.join(asking)})"
        return (TextEdit(self.file.span(condition), new),)

    def left(self, node: Node, behind: Sequence[Node]) -> tuple[TextEdit, ...]:
        """`if (data) return; …` as `if (!data) { … }`."""
        plain, asking = self._parts(node, "||")
        condition = bare(node.child_by_field_name("condition"))
        if plain or not asking or not behind or condition is None:
            return ()
        if any(_WAITS.search(self.code(n)) for n in behind):
            return ()
        first, begin, last = (self.file.span(n) for n in (node, behind[0], behind[-1]))
        newline, margin = self.text.newline, self.margin(node)
        inner = self.text.slice(Span(begin.line, begin.column, last.end_line, last.end_column))
        # one step further in: what stands in the kernel is one step in
        step = margin.removeprefix(self.text.margin(self.kernel.span.line))
        lines = [f"{margin}{line}" if not at else line for at, line in enumerate(inner.split(newline))]
        further = newline.join(f"{step}{line}" if line.strip() else line for line in lines)
        new = f"if ({self._opposite(condition)}) {{{newline}{further}{newline}{margin}}}"
        return (TextEdit(Span(first.line, first.column, last.end_line, last.end_column), new),)

    def _opposite(self, node: Node) -> str:
        kind = self.code(node.child_by_field_name("operator")) if node.type == "binary_expression" else ""
        if kind == "||":
            sides = (bare(node.child_by_field_name(side)) for side in ("left", "right"))
            return " && ".join(self._opposite(side) for side in sides if side is not None)
        # what NaN fails has no opposite of its own
        if kind not in _OPPOSITE:
            return f"!({self._written(node)})"
        left, right = (self._written(n) for s in ("left", "right") if (n := node.child_by_field_name(s)))
        return f"{left} {_OPPOSITE[kind]} {right}"

    def _parts(self, node: Node, joined: str) -> tuple[list[str], list[str]]:
        """The first parts of a condition, which ask no data, and the rest from the first on that does."""
        condition = bare(node.child_by_field_name("condition"))
        parts = self._joined(condition, joined) if condition is not None else []
        asks = [self._asks(part) for part in parts]
        at = asks.index(True) if True in asks else len(parts)
        if joined == "&&" and any(self._is_limit(p) for p in parts[at:]):
            return [], []
        return [self._written(p) for p in parts[:at]], [self._written(p) for p in parts[at:]]

    def _is_limit(self, node: Node) -> bool:
        """Whether a part behind one that asks the data limits a thread's number."""
        return not self._asks(node) and self.code(node.child_by_field_name("operator")) in FLIPPED

    def _asks(self, node: Node) -> bool:
        """Whether a condition may ask the data, by an element, a call or a variable that was loaded."""
        if any(n.type in _BY_DATA for n in walk(node)) or "->" in self.code(node):
            return True
        if self.code(node.child_by_field_name("operator")) in FLIPPED and self._is_of_number(node):
            return False
        return any(self._is_loaded(word) for word in self.words(node))

    def _is_of_number(self, node: Node) -> bool:
        """Whether a comparison limits a thread's number, by what was loaded or not."""
        sides = {self.code(bare(node.child_by_field_name(side))) for side in ("left", "right")}
        return any(_BUILTIN.search(self.code(value)) for side in sides for value in self.values_of(side))

    def _is_loaded(self, name: str) -> bool:
        """Whether a variable of the kernel's begins as an element, or as what a function makes of something."""
        value = next(self.values_of(name), None)
        return value is not None and any(
            n.type in ("subscript_expression", "call_expression") for n in walk(value)
        )

    def _joined(self, node: Node, joined: str) -> list[Node]:
        inner = bare(node)
        if inner is None:
            return []
        operator = self.code(inner.child_by_field_name("operator"))
        if inner.type == "binary_expression" and operator == joined:
            sides = (inner.child_by_field_name(side) for side in ("left", "right"))
            return [part for side in sides if side is not None for part in self._joined(side, joined)]
        return [node]

    def _written(self, node: Node) -> str:
        return self.text.slice(self.file.span(node))
