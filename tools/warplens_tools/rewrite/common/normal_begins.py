# SPDX-License-Identifier: Apache-2.0
"""Extremes that begin at an element, in the form that rewrites read: it comes behind the loop instead.

`float best = x[i]; for (…) if (x[i + k] > best) best = x[i + k];` becomes a maximum of the window alone, which is
compared with `x[i]` afterwards, where neighbouring threads have neighbouring elements. Results stay as they are but for
NaNs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.common.normal_bounds import WORD, BoundReader, bare, squeezed
from warplens_tools.text import SourceText, TextEdit

#: What is greater or less than no other number of a type, for a minimum and a maximum.
_ENDS = {
    "float": ("INFINITY", "-INFINITY"),
    "double": ("INFINITY", "-INFINITY"),
    "int": ("0x7fffffff", "-0x7fffffff - 1"),
    "unsigned char": ("255", "0"),
    "uchar": ("255", "0"),
    "uint8_t": ("255", "0"),
}
_EXTREMES = {"fmaxf": ">", "fmax": ">", "max": ">", "fminf": "<", "fmin": "<", "min": "<"}


def emptied(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that let one extreme begin at nothing; () where there is none."""
    reader = _Reader(text, file, kernel)
    for node in walk(reader.body) if reader.body is not None else ():
        if node.type == "declaration" and (edits := reader.begun(node)):
            return edits
    return ()


class _Reader(BoundReader):
    """The declarations of one kernel that a loop follows."""

    def begun(self, node: Node) -> tuple[TextEdit, ...]:
        """The edits for a declaration of one extreme."""
        declarators = node.children_by_field_name("declarator")
        value = bare(declarators[0].child_by_field_name("value")) if len(declarators) == 1 else None
        loop = _next(node)
        if value is None or loop is None or value.type != "subscript_expression":
            return ()
        name = self.code(declarators[0].child_by_field_name("declarator"))
        kind = self.code(node)[: declarators[0].start_byte - node.start_byte].strip()
        signs = set(self._signs(loop, name))
        if kind not in _ENDS or not WORD.fullmatch(name) or len(signs) != 1 or "" in signs:
            return ()
        if not self._is_own(value):
            return ()
        element, sign = self.text.slice(self.file.span(value)), signs.pop()
        if any(self.changes(loop, word) for word in self.words(value)):
            return ()
        margin = self.margin(loop)
        end = self.text.offset(self.file.span(loop).end_line, self.file.span(loop).end_column)
        behind = f"{self.text.newline}{margin}if ({element} {sign} {name}) {name} = {element};"
        return (
            TextEdit(self.file.span(value), _ENDS[kind][sign == ">"]),
            TextEdit(self.text.span(end, end), behind),
        )

    def _is_own(self, element: Node) -> bool:
        """Whether neighbouring threads have neighbouring elements: the first of a thread's row is no window's."""
        listed = element.child_by_field_name("indices")
        terms = re.split(r"[-+](?![^()]*\))", squeezed(self.code(listed))[1:-1])
        code = self.code(self.body)
        return any(
            WORD.fullmatch(t) and re.search(rf"\b{t}\s*=[^;=]*\bthreadIdx\s*\.\s*x\b", code) for t in terms
        )

    def _signs(self, loop: Node, name: str) -> Iterator[str]:
        """What each statement of a loop that sets a variable looks for: ">" for the greatest; "" for something else."""
        for node in walk(loop):
            if node.type == "update_expression" and self.code(node.child_by_field_name("argument")) == name:
                yield ""
            left = node.child_by_field_name("left") if node.type == "assignment_expression" else None
            if left is None or self.code(left) != name:
                continue
            if self.code(node.child_by_field_name("operator")) != "=":
                yield ""
                continue
            right = bare(node.child_by_field_name("right"))
            call = self.code(right.child_by_field_name("function")) if right is not None else ""
            listed = right.child_by_field_name("arguments") if right is not None else None
            given = [self.code(n) for n in listed.named_children] if listed is not None else []
            if name in given and len(given) == 2:
                yield _EXTREMES.get(call.removeprefix("std::"), "")
            else:
                yield self._sought(node, name, squeezed(self.code(right)))

    def _sought(self, node: Node, name: str, value: str) -> str:
        """Of `if (value > name) name = value;`."""
        outer = node.parent
        while outer is not None and outer.type in ("expression_statement", "compound_statement"):
            if outer.type == "compound_statement" and outer.named_child_count != 1:
                return ""
            outer = outer.parent
        if (
            outer is None
            or outer.type != "if_statement"
            or outer.child_by_field_name("alternative") is not None
        ):
            return ""
        test = squeezed(self.code(outer.child_by_field_name("condition")))
        whole = re.escape(value)
        if re.fullmatch(rf"\({whole}>=?{name}\)|\({name}<=?{whole}\)", test):
            return ">"
        return "<" if re.fullmatch(rf"\({whole}<=?{name}\)|\({name}>=?{whole}\)", test) else ""


def _next(node: Node) -> Node | None:
    """The loop that follows a declaration, with nothing but declarations between."""
    behind = node.next_named_sibling
    while behind is not None and behind.type in ("declaration", "comment"):
        behind = behind.next_named_sibling
    return behind if behind is not None and behind.type == "for_statement" else None
