# SPDX-License-Identifier: Apache-2.0
"""Edits of a kernel's statements, written as its author would have: indented alike, braces where they are needed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tree_sitter import Node

from warplens_tools.cuda.values.kernel_tree import KernelTree
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.insertion import start_with_pragmas
from warplens_tools.text import SourceText, TextEdit

#: At one place: what ends a statement, begins one, is a condition before it, replaces.
_END, _BEGIN, _CONDITION = 0, 1, 2
_INDENT = re.compile(r"[ \t]*")
_NAME = re.compile(r"[A-Za-z_]\w*")


class KernelEdits:
    """Collects edits of one kernel. Nodes are nodes of `expanded.tree`.

    Every method raises `Refused` where a macro wrote what is to be changed.
    """

    def __init__(self, text: SourceText, expanded: KernelTree) -> None:
        self.text, self.expanded, self.tree = text, expanded, expanded.tree
        #: (offset, end, kind, order), text
        self._made: list[tuple[tuple[int, int, int, int], str]] = []
        self._before: dict[int, tuple[Node, list[str]]] = {}
        self._after: dict[int, tuple[Node, list[str]]] = {}
        self._names = set(_NAME.findall(text.text))
        self._local: set[str] = set()

    # places

    def offsets(self, node: Node) -> tuple[int, int]:
        """Where a node stands in the file."""
        span = self.tree.span(node)
        start = self.text.offset(span.line, span.column)
        end = self.text.offset(span.end_line, span.end_column)
        code, written = self.tree.text_of(node), self.text.text[start:end]
        if not written or code[:1] != written[:1] or code[-1:] != written[-1:]:
            raise Refused("a macro writes what would have to change")
        return start, end

    def indent(self, node: Node) -> str:
        """The white space that the node's line begins with."""
        return _indent_at(self.text.text, self.offsets(node)[0])

    @property
    def unit(self) -> str:
        """One level of indentation in this kernel."""
        body = self.expanded.function.body
        outer = _indent_at(self.text.text, self.offsets(self.expanded.function.node)[0])
        for child in body.named_children:
            inner = self.indent(child)
            if self._leads(child) and len(inner) > len(outer) and inner.startswith(outer):
                return inner[len(outer) :]
        return "  "

    def names(self, name: str) -> list[Node]:
        """Every identifier of that name in the kernel's body."""
        found = self.tree.captures("(identifier) @name", self.expanded.function.body).get("name", [])
        return [node for node in found if self.tree.code_of(node) == name]

    def fresh(self, name: str) -> str:
        """`name`, or a name made from it that the file does not use yet; it is taken from then on."""
        name = re.sub(r"\W+", "_", name)
        found, number = name, 2
        while found in self._names:
            found, number = f"{name}{number}", number + 1
        self._names.add(found)
        return found

    def fresh_here(self, name: str) -> str:
        """As `fresh`, for a variable of the kernel, of which other functions may have one of that name."""
        name = re.sub(r"\W+", "_", name)
        wide = {n for leaf in self.tree.file.leaves if leaf.function is None for n in self._words(leaf.node)}
        inside = set(_NAME.findall(self.tree.text_of(self.expanded.function.node))) | self._local | wide
        found, number = name, 2
        while found in inside:
            found, number = f"{name}{number}", number + 1
        self._local.add(found)
        return found

    def _words(self, node: Node) -> list[str]:
        return _NAME.findall(self.tree.file.text_of(node))

    def _leads(self, node: Node) -> bool:
        """Whether nothing but white space stands before the node on its line."""
        start = self.offsets(node)[0]
        return not self.text.text[_line_start(self.text.text, start) : start].strip()

    # edits

    def replace(self, node: Node, new: str) -> None:
        """Write an expression anew."""
        start, end = self.offsets(node)
        if self.text.text[start:end] != self.tree.text_of(node):
            raise Refused("a macro writes what would have to change")
        if self.tree.text_of(node) != new:
            self._made.append(((start, end, 3, 0), new))

    def remove(self, statement: Node) -> None:
        """Take a statement away, with its line if it has that for itself."""
        start, end = self.offsets(statement)
        text = self.text.text
        low, high = _line_start(text, start), _line_end(text, end)
        if not text[low:start].strip() and not text[end:high].strip():
            start, end = low, min(high + len(self.text.newline), len(text))
        self._made.append(((start, end, 3, 0), ""))

    def cut(self, start: int, end: int) -> None:
        """Take a stretch of the file away."""
        self._made.append(((start, end, 3, 0), ""))

    def insert_at(self, offset: int, new: str) -> None:
        """Text at an offset of the file."""
        self._made.append(((offset, offset, _END, 0), new))

    def before(self, statement: Node, *lines: str) -> None:
        """Lines in front of a statement, and of the pragmas that belong to it."""
        self._before.setdefault(statement.id, (statement, []))[1].extend(lines)

    def after(self, statement: Node, *lines: str) -> None:
        """Lines behind a statement."""
        self._after.setdefault(statement.id, (statement, []))[1].extend(lines)

    def guard(self, statements: Sequence[Node], condition: str) -> None:
        """Consecutive statements are executed where `condition` holds."""
        if len(statements) == 1:
            self._condition(statements[0], f"if ({condition}) ")
            return
        indent, newline = self.indent(statements[0]), self.text.newline
        if not all(self._leads(s) for s in statements):
            for statement in statements:
                self._condition(statement, f"if ({condition}) ")
            return
        self._condition(statements[0], f"if ({condition}) {{{newline}{indent}{self.unit}")
        self._shift(self.offsets(statements[0])[0], self.offsets(statements[-1])[1])
        end = _comment_end(self.text.text, self.offsets(statements[-1])[1])
        self._made.append(((end, end, _END, 1), f"{newline}{indent}}}"))

    def _condition(self, statement: Node, new: str) -> None:
        start, _ = self.offsets(statement)
        self._made.append(((start, start, _CONDITION, 0), new))

    def _shift(self, start: int, end: int) -> None:
        """One more level of indentation for the lines that begin in (start, end)."""
        text = self.text.text
        at = text.find("\n", start, end)
        while at >= 0:
            low = at + 1
            if text[low:end].strip() and text[low : low + 1] not in ("\n", "\r", "#"):
                self._made.append(((low, low, _END, 0), self.unit))
            at = text.find("\n", low, end)

    # result

    def edits(self) -> tuple[TextEdit, ...]:
        """All that was asked for, in an order in which texts at one place come right."""
        made = list(self._made)
        for key in self._before.keys() | self._after.keys():
            statement = (self._before.get(key) or self._after[key])[0]
            before = self._before.get(key, (statement, []))[1]
            after = self._after.get(key, (statement, []))[1]
            made += self._around(statement, before, after)
        made.sort(key=lambda one: one[0])
        return tuple(TextEdit(self.text.span(place[0], place[1]), new) for place, new in made)

    def _around(
        self, statement: Node, before: list[str], after: list[str]
    ) -> list[tuple[tuple[int, int, int, int], str]]:
        text, newline = self.text.text, self.text.newline
        start, end = self.offsets(statement)
        start = start_with_pragmas(self.expanded.tree.file, start)
        order = (start, start, _BEGIN, -end)
        alone, lines = self._is_body(statement), self._leads(statement)
        if not lines:
            opening, closing = ("{ ", " }") if alone else ("", "")
            made = [(order, opening + "".join(f"{line} " for line in before))]
            last = "".join(f" {line}" for line in after)
            return [*made, ((end, end, _END, -start), last + closing)]
        indent = self.indent(statement)
        inner = newline + indent
        shown = [line.replace("\n", inner) for line in before]
        made = [(order, "".join(line + inner for line in shown))]
        behind = _comment_end(text, end)
        closing = "".join(inner + line.replace("\n", inner) for line in after)
        if alone:
            opened = len(text[:start].rstrip())
            made.append(((opened, opened, _END, 0), " {"))
            closing += newline + self._outer_indent(statement) + "}"
        return [*made, ((behind, behind, _END, -start), closing)]

    def _outer_indent(self, statement: Node) -> str:
        parent = statement.parent
        while parent is not None and parent.type == "else_clause":
            parent = parent.parent
        return self.indent(parent) if parent is not None else ""

    def _is_body(self, statement: Node) -> bool:
        """Whether a statement is all that a loop or a branch has, without braces."""
        parent = statement.parent
        return parent is not None and parent.type not in ("compound_statement", "case_statement")


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    end = found if found >= 0 else len(text)
    return end - 1 if end and text[end - 1 : end] == "\r" else end


def _indent_at(text: str, at: int) -> str:
    found = _INDENT.match(text, _line_start(text, at))
    return found[0] if found else ""


def _comment_end(text: str, end: int) -> int:
    """Behind the comment that follows on the line, if that is all that does."""
    rest = text[end : _line_end(text, end)]
    return end + len(rest.rstrip()) if re.fullmatch(r"\s*//.*", rest) else end
