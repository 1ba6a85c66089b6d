# SPDX-License-Identifier: Apache-2.0
"""Loops over a pointer, in the form that rewrites read: over the number of its element.

`for (const float* q = p; q < p + n; ++q) sum += *q;` becomes `for (int t = 0; t < n; ++t) sum += p[t];`.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, holds, walk
from warplens_tools.rewrite.common.normal_bounds import WORD, BoundReader, bare, squeezed
from warplens_tools.text import SourceText, TextEdit


def pointers_counted(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits of one loop over a pointer; () where there is none."""
    reader = _Reader(text, file, kernel)
    for loop in walk(reader.body) if reader.body is not None else ():
        if loop.type == "for_statement" and (edits := reader.counted(loop)):
            return edits
    return ()


class _Reader(BoundReader):
    """The loops of one kernel."""

    def counted(self, loop: Node) -> tuple[TextEdit, ...]:
        """The edits of a loop; () where it is over no pointer, or uses it otherwise than for its element."""
        initial, body = loop.child_by_field_name("initializer"), loop.child_by_field_name("body")
        condition, update = loop.child_by_field_name("condition"), loop.child_by_field_name("update")
        if initial is None or body is None or condition is None or update is None or self.body is None:
            return ()
        declarators = initial.children_by_field_name("declarator")
        one = declarators[0] if initial.type == "declaration" and len(declarators) == 1 else None
        pointer = one.child_by_field_name("declarator") if one is not None else None
        begin = bare(one.child_by_field_name("value")) if one is not None else None
        if (
            pointer is None
            or pointer.type != "pointer_declarator"
            or begin is None
            or begin.type != "identifier"
        ):
            return ()
        name, base = self.code(pointer).lstrip("* "), self.code(begin)
        if not WORD.fullmatch(name) or squeezed(self.code(update)) not in (f"{name}++", f"++{name}"):
            return ()
        count = self._count(bare(condition), name, base)
        uses = [n for n in walk(body) if n.type == "identifier" and self.code(n) == name]
        elements = [n.parent for n in uses]
        if not count or not uses or self.changes(body, base):
            return ()
        if any(self.changes(body, word) for word in WORD.findall(count)):
            return ()
        counter = self.free("t")
        edits = [TextEdit(self.file.span(initial), f"int {counter} = 0;")]
        edits += [TextEdit(self.file.span(condition), f"{counter} < {count}")]
        edits += [TextEdit(self.file.span(update), f"++{counter}")]
        for element in elements:
            if element is None or squeezed(self.code(element)) != f"*{name}" or not holds(body, element):
                return ()
            edits.append(TextEdit(self.file.span(element), f"{base}[{counter}]"))
        return tuple(edits)

    def _count(self, condition: Node | None, name: str, base: str) -> str:
        """How many elements a loop goes over, by where it ends; "" where that is not known."""
        if condition is None or condition.type != "binary_expression":
            return ""
        left, right = (bare(condition.child_by_field_name(side)) for side in ("left", "right"))
        kind = self.code(condition.child_by_field_name("operator"))
        if left is None or right is None or self.code(left) != name or kind not in ("<", "!="):
            return ""
        if right.type == "identifier":
            ends = [
                one.child_by_field_name("value")
                for one in (walk(self.body) if self.body is not None else ())
                if one.type == "init_declarator"
                and re.sub(r"^[\s*]*(?:const\b\s*)?", "", self.code(one.child_by_field_name("declarator")))
                == self.code(right)
            ]
            right = bare(ends[0]) if len(ends) == 1 and not self._moves(self.code(right)) else None
        if right is None or right.type != "binary_expression":
            return ""
        first, more = (bare(right.child_by_field_name(side)) for side in ("left", "right"))
        is_sum = self.code(right.child_by_field_name("operator")) == "+"
        if not is_sum or first is None or more is None or self.code(first) != base:
            return ""
        written = self.text.slice(self.file.span(more))
        return written if re.fullmatch(r"[\w.]+", written) else f"({written})"

    def _moves(self, name: str) -> bool:
        return self.body is not None and self.changes(self.body, name)
