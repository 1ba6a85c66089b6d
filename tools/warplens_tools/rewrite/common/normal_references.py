# SPDX-License-Identifier: Apache-2.0
"""Names for one element of an array, in the form that rewrites read: the element itself.

`Particle& p = particles[i]; p.x += p.vx;` becomes `particles[i].x += particles[i].vx;`, and so does a pointer to the
element, `Particle* p = &particles[i];`, of which only members are used.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.common.normal_bounds import WORD, BoundReader, bare
from warplens_tools.text import SourceText, Span, TextEdit

_MOVING = frozenset({"call_expression", "update_expression", "assignment_expression", "subscript_expression"})


def named_elements(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that write out the first such name of a kernel; () where there is none."""
    reader = _Reader(text, file, kernel)
    for node in walk(reader.body) if reader.body is not None else ():
        if node.type == "declaration" and (edits := reader.written_out(node)):
            return edits
    return ()


class _Reader(BoundReader):
    """The declarations of one kernel that name an element."""

    def written_out(self, node: Node) -> tuple[TextEdit, ...]:
        """The edits for one declaration."""
        declarators = node.children_by_field_name("declarator")
        one = declarators[0] if len(declarators) == 1 and declarators[0].type == "init_declarator" else None
        declarator = one.child_by_field_name("declarator") if one is not None else None
        value = bare(one.child_by_field_name("value")) if one is not None else None
        if declarator is None or value is None or self.body is None:
            return ()
        pointer = declarator.type == "pointer_declarator"
        if not pointer and declarator.type != "reference_declarator":
            return ()
        name = self.code(declarator).lstrip("*&").strip()
        element = self._element(value, pointer=pointer)
        if not element or not WORD.fullmatch(name):
            return ()
        uses = [n for n in walk(self.body) if n.type == "identifier" and self.code(n) == name]
        uses = [n for n in uses if not node.start_byte <= n.start_byte < node.end_byte]
        places = [self._place(use) if pointer else use for use in uses]
        if not places or any(p is None for p in places) or not self._is_visible(node, uses):
            return ()
        gone = Span(self.file.span(node).line, 1, self.file.span(node).end_line + 1, 1)
        alone = self.text.line_text(gone.line).strip() == self.text.slice(self.file.span(node)).strip()
        edits = [TextEdit(gone if alone else self.file.span(node), "")]
        edits += [self._replaced(place, element, pointer=pointer) for place in places if place is not None]
        return tuple(edits)

    def _replaced(self, place: Node, element: str, *, pointer: bool) -> TextEdit:
        """The edit of one use: `p->` of a pointer, a reference itself."""
        outer = place.parent
        arrow = outer.child_by_field_name("operator") if pointer and outer is not None else None
        span = self.file.span(place)
        if arrow is None:
            return TextEdit(span, element)
        last = self.file.span(arrow)
        return TextEdit(Span(span.line, span.column, last.end_line, last.end_column), f"{element}.")

    def _element(self, value: Node, *, pointer: bool) -> str:
        """The element that a reference or a pointer is made of, as written; "" for another value."""
        if not pointer:
            return self._steady(value)
        if value.type == "pointer_expression" and self.code(value).startswith("&"):
            inner = bare(value.child_by_field_name("argument"))
            return self._steady(inner) if inner is not None else ""
        left, right = value.child_by_field_name("left"), value.child_by_field_name("right")
        operator = value.child_by_field_name("operator")
        if value.type != "binary_expression" or left is None or right is None or operator is None:
            return ""
        sound = operator.type == "+" and self._is_array(left) and self._stays(right)
        return f"{self.code(left)}[{self.text.slice(self.file.span(right))}]" if sound else ""

    def _steady(self, element: Node) -> str:
        """An element of a parameter whose index stays as it is; "" for another expression."""
        base, listed = element.child_by_field_name("argument"), element.child_by_field_name("indices")
        if element.type != "subscript_expression" or base is None or listed is None:
            return ""
        index = listed.named_children[0] if listed.named_child_count == 1 else None
        sound = index is not None and self._is_array(base) and self._stays(index)
        return self.text.slice(self.file.span(element)) if sound else ""

    def _is_array(self, node: Node) -> bool:
        names = {p.name for p in self.kernel.parameters if p.pointer}
        return node.type == "identifier" and self.code(node) in names

    def _stays(self, index: Node) -> bool:
        """Whether nothing in the kernel changes what an index is made of once it is declared."""
        if self.body is None or any(n.type in _MOVING for n in walk(index)):
            return False
        return not any(self.changes(self.body, word) for word in self.words(index))

    @staticmethod
    def _place(use: Node) -> Node | None:
        """`p->` of a member through a pointer; None for any other use."""
        outer = use.parent
        arrow = outer.child_by_field_name("operator") if outer is not None else None
        member = outer is not None and outer.type == "field_expression" and arrow is not None
        return use if member and arrow is not None and arrow.type == "->" else None

    def _is_visible(self, node: Node, uses: list[Node]) -> bool:
        """Whether all uses stand behind the declaration, in its block."""
        block = node.parent
        return block is not None and all(node.end_byte <= n.start_byte < block.end_byte for n in uses)
