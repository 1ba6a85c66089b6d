# SPDX-License-Identifier: Apache-2.0
"""What a loop remembers of the last element that a condition holds for, in the form that rewrites read: where it was.

`if (column[j] == row) diagonal = value[j];` becomes `if (column[j] == row) diagonalAt = max(diagonalAt, j);`, a
maximum that parts of the loop have each for itself, and `if (diagonalAt >= 0) diagonal = value[diagonalAt];` behind it.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, holds, walk
from warplens_tools.rewrite.common.normal_bounds import WORD, BoundReader, bare
from warplens_tools.text import SourceText, TextEdit

_COUNTER = re.compile(r"(?:const\s+)?int\s+(\w+)\s*=[^,;]*;?")
_CALLED = re.compile(r"\b(\w+)\s*\(")
_PURE = frozenset({"__ldg", "float", "double", "int", "fabsf", "fabs", "abs", "sqrtf", "expf"})


def places_kept(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits for one variable of a kernel's that a loop sets under a condition; () where there is none."""
    reader = _Reader(text, file, kernel)
    for loop in walk(reader.body) if reader.body is not None else ():
        for node in walk(loop) if loop.type == "for_statement" else ():
            edits = reader.edits(loop, node) if node.type == "if_statement" else ()
            if edits:
                return edits
    return ()


class _Reader(BoundReader):
    """The loops of one kernel."""

    def edits(self, loop: Node, choice: Node) -> tuple[TextEdit, ...]:
        """Those of one condition in a loop; () where it does more than to set a variable that nothing reads there."""
        begun = _COUNTER.fullmatch(self.code(loop.child_by_field_name("initializer")))
        step = self.code(loop.child_by_field_name("update"))
        if (
            begun is None
            or step not in (f"{begun[1]}++", f"++{begun[1]}")
            or not self._is_nearest(loop, choice)
        ):
            return ()
        counter, then = begun[1], choice.child_by_field_name("consequence")
        inside = then.named_children if then is not None and then.type == "compound_statement" else [then]
        put = (
            bare(inside[0].named_children[0])
            if len(inside) == 1 and inside[0] and inside[0].named_children
            else None
        )
        if (
            put is None
            or put.type != "assignment_expression"
            or self.code(put.child_by_field_name("operator")) != "="
        ):
            return ()
        left, value = put.child_by_field_name("left"), put.child_by_field_name("right")
        name = self.code(left)
        if value is None or not WORD.fullmatch(name) or not self._is_kept(loop, left, value, counter):
            return ()
        at, margin = self.free(f"{name}At"), self.margin(loop)
        later = re.sub(rf"\b{counter}\b", at, self.text.slice(self.file.span(value)))
        begin, end = self.file.span(loop), self.file.span(loop)
        front = self.text.span(
            self.text.offset(begin.line, begin.column), self.text.offset(begin.line, begin.column)
        )
        behind = self.text.span(
            self.text.offset(end.end_line, end.end_column), self.text.offset(end.end_line, end.end_column)
        )
        line = f"{self.text.newline}{margin}"
        return (
            TextEdit(front, f"int {at} = -1;{line}"),
            TextEdit(self.file.span(put), f"{at} = max({at}, {counter})"),
            TextEdit(behind, f"{line}if ({at} >= 0) {name} = {later};"),
        )

    def _is_nearest(self, loop: Node, choice: Node) -> bool:
        """Whether a condition stands in no loop inside this one, and this one among statements."""
        at = choice.parent
        while at is not None and at.id != loop.id:
            if at.type in LOOPS or at.type == "lambda_expression":
                return False
            at = at.parent
        return loop.parent is not None and loop.parent.type == "compound_statement"

    def _is_kept(self, loop: Node, left: Node | None, value: Node, counter: str) -> bool:
        """Whether a variable from outside is set here alone, unread, and to what the element's place says later too."""
        name, body = self.code(left), loop.child_by_field_name("body")
        uses = [n for n in walk(loop) if n.type == "identifier" and self.code(n) == name]
        if (
            body is None
            or len(uses) != 1
            or any(n.type in ("return_statement", "break_statement") for n in walk(loop))
        ):
            return False
        own = {w for n in walk(body) if n.type == "init_declarator" for w in WORD.findall(self.code(n))[:1]}
        words = WORD.findall(self.code(value))
        if counter not in words or any(w in own or self.changes(body, w) for w in words):
            return False
        if any(f not in _PURE for f in _CALLED.findall(self.code(value))) or self._stores(body):
            return False
        outside = [n for n in self._declared(name) if not holds(loop, n)]
        indexed = re.search(rf"\[\s*{counter}\s*\]", self.code(body))
        return len(outside) == 1 and indexed is not None

    def _declared(self, name: str) -> list[Node]:
        return [
            n
            for n in (walk(self.body) if self.body is not None else ())
            if n.type in ("init_declarator", "declaration")
            for d in [n.child_by_field_name("declarator")]
            if d is not None and self.code(d) == name
        ]

    def _stores(self, body: Node) -> bool:
        """Whether a loop writes to memory, which the value would be read from later."""
        for node in walk(body):
            target = node.child_by_field_name("left" if node.type == "assignment_expression" else "argument")
            changes = node.type in ("assignment_expression", "update_expression")
            if changes and target is not None and target.type not in ("identifier", "field_expression"):
                return True
        return re.search(r"\batomic\w+\s*\(", self.code(body)) is not None
