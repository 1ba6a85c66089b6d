# SPDX-License-Identifier: Apache-2.0
"""Loops that ask behind their body whether to go on, in the form that rewrites read: `do { … } while (i < n);` as
`while (i < n) { … }`, where the first step is taken anyway, or is written into the limit: `while (j < max(n, 2))`.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, before, walk
from warplens_tools.rewrite.common.normal_bounds import WORD, BoundReader
from warplens_tools.text import SourceText, TextEdit

_CONDITION = re.compile(r"(\w+)\s*<\s*([\w.]+)")
_JUMPS = frozenset({"continue_statement", "break_statement", "goto_statement"})


def asked_first(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits for a kernel's first loop that can be written so; () where there is none."""
    reader = _Reader(text, file, kernel)
    for node in walk(reader.body) if reader.body is not None else ():
        edits = reader.edits(node) if node.type == "do_statement" else ()
        if edits:
            return edits
    return ()


class _Reader(BoundReader):
    """The loops of one kernel."""

    def edits(self, loop: Node) -> tuple[TextEdit, ...]:
        """Those of one loop; () where nothing says what its first step is."""
        body, clause = loop.child_by_field_name("body"), loop.child_by_field_name("condition")
        asked = _CONDITION.fullmatch(self.code(clause).strip()[1:-1].strip()) if clause is not None else None
        if body is None or clause is None or asked is None or body.type != "compound_statement":
            return ()
        name, limit = asked[1], asked[2]
        if not self._steps(body, name, limit):
            return ()
        guard = self._guard(loop, name, limit)
        least = self._least(loop, name, limit) if guard is None else ""
        if guard is None and not least:
            return ()
        start, last = self.file.span(loop), self.file.span(body)
        tail = self.text.span(
            self.text.offset(last.end_line, last.end_column),
            self.text.offset(start.end_line, start.end_column),
        )
        word = self.file.span(loop.children[0])
        edits = [TextEdit(word, f"while ({name} < {least or limit})"), TextEdit(tail, "")]
        if guard is not None and guard.type == "if_statement" and self._ends(loop):
            edits.append(TextEdit(self.text.with_line(self.file.span(guard)), ""))
        elif guard is not None:
            edits += self._unwrapped(loop, guard, f"{name} < {limit}")
        return tuple(edits)

    def _unwrapped(self, loop: Node, clause: Node, asked: str) -> list[TextEdit]:
        """The edits that take a condition away which a kernel ends with, and which has a loop alone."""
        around = clause.parent
        inside = around.child_by_field_name("consequence") if around is not None else None
        alone = [n for n in inside.named_children if n.type != "comment"] if inside is not None else []
        if around is None or inside is None or around.child_by_field_name("alternative") is not None:
            return []
        only = inside.id == loop.id or [n.id for n in alone] == [loop.id]
        if not only or self.code(clause).strip()[1:-1].strip() != asked or not self._ends(around):
            return []
        whole, kept = self.file.span(around), self.file.span(loop)
        begin, end = (self.text.offset(s.line, s.column) for s in (whole, kept))
        last, behind = (self.text.offset(s.end_line, s.end_column) for s in (kept, whole))
        return [TextEdit(self.text.span(begin, end), ""), TextEdit(self.text.span(last, behind), "")]

    def _steps(self, body: Node, name: str, limit: str) -> bool:
        """Whether a body ends with the step of its counter, and changes neither it nor the limit elsewhere."""
        inside = [n for n in body.named_children if n.type != "comment"]
        if len(inside) < 2 or any(n.type in _JUMPS for n in walk(body)):
            return False
        step = self.code(inside[-1])
        stepped = re.fullmatch(rf"(?:\+\+\s*{name}|{name}\s*\+\+|{name}\s*\+=\s*[^;=]+)\s*;", step.strip())
        changed = sum(len(re.findall(_changing(name), self.code(n))) for n in inside)
        words = WORD.findall(limit)
        return (
            stepped is not None
            and changed == 1
            and not any(re.search(_changing(w), self.code(body)) for w in words)
        )

    def _guard(self, loop: Node, name: str, limit: str) -> Node | None:
        """The statement that keeps threads from a loop whose first step lies beyond the limit."""
        outside = rf"(?:.*\|\|\s*)?{name}\s*>=\s*{re.escape(limit)}(?:\s*\|\|.*)?"
        inside = rf"(?:.*&&\s*)?{name}\s*<\s*{re.escape(limit)}(?:\s*&&.*)?"
        at: Node | None = loop
        while at is not None and self.body is not None and at.id != self.body.id:
            for node in before(at):
                code = self.code(node)
                clause = node.child_by_field_name("condition") if node.type == "if_statement" else None
                asked = self.code(clause).strip()[1:-1].strip() if clause is not None else ""
                then = node.child_by_field_name("consequence")
                leaves = then is not None and re.fullmatch(r"\{?\s*return\s*;\s*\}?", self.code(then).strip())
                if leaves and re.fullmatch(outside, asked):
                    return node if asked == f"{name} >= {limit}" else then
                if any(re.search(_changing(w), code) for w in (name, *WORD.findall(limit))):
                    return None
            around = at.parent
            if around is not None and around.type == "if_statement":
                clause = around.child_by_field_name("condition")
                asked = self.code(clause).strip()[1:-1].strip() if clause is not None else ""
                consequence = around.child_by_field_name("consequence")
                if consequence is not None and consequence.id == at.id and re.fullmatch(inside, asked):
                    return clause
            at = around
        return None

    def _least(self, loop: Node, name: str, limit: str) -> str:
        """The limit with which the first step is taken in any case: `max(n, 2)` from 1; "" where that is not known."""
        kinds = [p.type for p in self.kernel.parameters if p.name == limit and not p.pointer]
        if [k.removeprefix("const ") for k in kinds] != ["int"]:
            return ""
        for node in before(loop):
            code = self.code(node).strip()
            begun = re.fullmatch(rf"int\s+{name}\s*=\s*(\d+)\s*;|{name}\s*=\s*(\d+)\s*;", code)
            if begun is not None:
                return f"max({limit}, {int(begun[1] or begun[2]) + 1})"
            if re.search(rf"\b{name}\b", code):
                break
        return ""

    def _ends(self, loop: Node) -> bool:
        """Whether a kernel does nothing behind a loop."""
        outer = loop.parent
        if outer is None or self.body is None or outer.id != self.body.id:
            return False
        return all(n.type == "comment" for n in outer.named_children if n.start_byte > loop.end_byte)


def _changing(name: str) -> str:
    return (
        rf"\+\+\s*{name}\b|\b{name}\s*\+\+|--\s*{name}\b|\b{name}\s*--"
        rf"|\b{name}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|&\s*{name}\b"
    )
