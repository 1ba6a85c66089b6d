# SPDX-License-Identifier: Apache-2.0
"""Remainders that are written as what a quotient leaves, in the form that rewrites read: as remainders.

`row = i / cols; col = i - row * cols;` has `col = i % cols`, which is the same for all integers.
"""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.common.normal_bounds import BoundReader, bare, squeezed
from warplens_tools.text import SourceText, TextEdit


def remainders_written(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edit for one remainder of a kernel; () where there is none."""
    reader = _Reader(text, file, kernel)
    for node in walk(reader.body) if reader.body is not None else ():
        if node.type == "binary_expression" and (found := reader.remainder(node)) is not None:
            number, by = found
            new = f"{number} % {by}"
            outer = node.parent
            loose = outer is not None and outer.type == "binary_expression"
            return (TextEdit(file.span(node), f"({new})" if loose else new),)
    return ()


class _Reader(BoundReader):
    """The differences of one kernel."""

    def remainder(self, node: Node) -> tuple[str, str] | None:
        """Number and divisor of `i - row * cols`; None for any other difference."""
        left, right = bare(node.child_by_field_name("left")), bare(node.child_by_field_name("right"))
        if left is None or right is None or self.code(node.child_by_field_name("operator")) != "-":
            return None
        if left.type != "identifier" or right.type != "binary_expression":
            return None
        if self.code(right.child_by_field_name("operator")) != "*" or self.body is None:
            return None
        sides = [bare(right.child_by_field_name(side)) for side in ("left", "right")]
        for quotient, by in (sides, sides[::-1]):
            if quotient is None or by is None:
                continue
            fixed = self.words(by) | {self.code(left)}
            if self._divides(quotient, self.code(left), squeezed(self.code(by))) and not any(
                self.changes(self.body, name) for name in fixed
            ):
                written = self.text.slice(self.file.span(by))
                return self.code(left), written if by.type in (
                    "identifier",
                    "number_literal",
                ) else f"({written})"
        return None

    def _divides(self, node: Node, number: str, by: str) -> bool:
        """Whether a node is the quotient of a number, or a variable that is."""
        if node.type == "identifier" and self.body is not None:
            found = list(self._values(self.code(node)))
            inner = (
                bare(found[0]) if len(found) == 1 and not self.changes(self.body, self.code(node)) else None
            )
            return inner is not None and inner.type != "identifier" and self._divides(inner, number, by)
        if node.type != "binary_expression" or self.code(node.child_by_field_name("operator")) != "/":
            return False
        sides = [bare(node.child_by_field_name(side)) for side in ("left", "right")]
        return [squeezed(self.code(side)) for side in sides] == [number, by]

    def _values(self, name: str) -> Iterator[Node]:
        """What the integers of that name begin at."""
        for node in walk(self.body) if self.body is not None else ():
            declarators = node.children_by_field_name("declarator") if node.type == "declaration" else []
            written = self.code(node)[: declarators[0].start_byte - node.start_byte] if declarators else ""
            plain = " ".join(w for w in written.split() if w not in ("const", "constexpr"))
            for one in declarators:
                value = one.child_by_field_name("value")
                if value is not None and self.code(one.child_by_field_name("declarator")) == name:
                    yield value if integer_type(plain) is not None or plain == "auto" else one
