# SPDX-License-Identifier: Apache-2.0
"""Members of structures that a kernel is passed, in the form that rewrites read: as variables of their own.

`grid.nx` becomes `nx` behind `const int nx = grid.nx;`, and `field.ez[k]` an element of `float* ez = field.ez;`. Floats
stay where they are: they say no place.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.cuda.values.layouts import Member
from warplens_tools.rewrite.common.normal_bounds import WORD, BoundReader
from warplens_tools.text import SourceText, Span, TextEdit

_RECORDS = frozenset({"struct_specifier", "class_specifier"})


def members_named(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that name all members of one parameter of a kernel, or of one structure in constant memory; () where
    there is none.
    """
    reader = _Reader(text, file, kernel)
    given = [(p.name, p.type) for p in kernel.parameters if not p.pointer and "&" not in p.type]
    for name, kind in (*given, *_in_constant_memory(file)) if reader.body is not None else ():
        edits = reader.named(name, kind)
        if edits:
            return edits
    return ()


def _in_constant_memory(file: SourceTree) -> list[tuple[str, str]]:
    """Structures that the host gives every launch, by name and type: `__constant__ Params params;`."""
    code = (file.code_of(n) for n in file.root.named_children if n.type == "declaration")
    found = (
        re.fullmatch(r"(?:static\s+)?__constant__\s+(?:struct\s+)?(\w+)\s+(\w+)\s*;", c.strip()) for c in code
    )
    return [(m[2], m[1]) for m in found if m is not None]


def _is_named(node: Node) -> bool:
    """Whether a member is what a variable begins at: it has a name there already."""
    outer = node.parent
    return (
        outer is not None and outer.type == "init_declarator" and outer.child_by_field_name("value") == node
    )


class _Reader(BoundReader):
    """The members that one kernel reads of its parameters."""

    def named(self, holder: str, written: str) -> tuple[TextEdit, ...]:
        """The edits for one parameter."""
        kind = " ".join(w for w in written.split() if w not in ("const", "struct"))
        names = list(walk(self.body)) if self.body is not None else []
        uses = [n for n in names if n.type == "identifier" and self.code(n) == holder]
        first = (
            next((n for n in self.body.named_children if n.type != "comment"), None) if self.body else None
        )
        if first is None or not uses or layouts_of(self.file).record(kind) is None or self._is_hidden(uses):
            return ()
        places = dict[str, list[Node]]()
        for use in uses:
            path, node = self._path(use)
            if path and self._is_set(node):
                return ()
            if path and not _is_named(node):
                places.setdefault(path, []).append(node)
        taken = {self.code(n) for n in names if n.type == "identifier"}
        taken |= {p.name for p in self.kernel.parameters}
        edits, lines = list[TextEdit](), list[str]()
        for path, nodes in places.items():
            member = layouts_of(self.file).member(kind, path)
            declared = self._type(member, path, nodes) if member is not None else ""
            if not declared:
                continue
            name = path.rpartition(".")[2]
            name = name if name not in taken else f"{holder}_{name}"
            if name in taken:
                return ()
            taken.add(name)
            lines.append(f"{declared} {name} = {holder}.{path};")
            edits += [TextEdit(self.file.span(n), name) for n in nodes]
        if not edits:
            return ()
        span, margin = self.file.span(first), self.margin(first)
        at = Span(span.line, span.column, span.line, span.column)
        return (TextEdit(at, "".join(f"{line}{self.text.newline}{margin}" for line in lines)), *edits)

    def _path(self, use: Node) -> tuple[str, Node]:
        """The member `a.b` of `p.a.b`, and the whole; "" where the structure is used as one, or a function of it is."""
        parts, node = list[str](), use
        while (outer := node.parent) is not None and outer.type == "field_expression":
            member, operator = outer.child_by_field_name("field"), outer.child_by_field_name("operator")
            if outer.child_by_field_name("argument") != node or self.code(operator) != "." or member is None:
                break
            parts.append(self.code(member))
            node = outer
        called = node.parent is not None and node.parent.child_by_field_name("function") == node
        return "" if called else ".".join(parts), node

    def _is_set(self, node: Node) -> bool:
        """Whether what a parameter holds may be another number afterwards."""
        outer = node.parent
        if outer is None:
            return True
        if outer.type == "assignment_expression":
            return outer.child_by_field_name("left") == node
        return outer.type == "update_expression" or (
            outer.type == "pointer_expression" and self.code(outer).startswith("&")
        )

    def _is_hidden(self, uses: list[Node]) -> bool:
        """Whether the kernel declares another thing of the name, or changes the whole."""
        for node in uses:
            outer = node.parent
            declares = outer is not None and outer.child_by_field_name("declarator") == node
            if declares or self._is_set(node):
                return True
        return False

    def _type(self, member: Member, path: str, nodes: list[Node]) -> str:
        """What a variable for a member is declared as; "" for all but integers and pointers."""
        if not member.pointer:
            size = layouts_of(self.file).bytes(member.type)
            plain = layouts_of(self.file).plain(member.type)
            return (
                f"const {member.type}"
                if integer_type(plain) is not None and size == member.size and "*" not in member.type
                else ""
            )
        qualified = self._qualifiers(path.rpartition(".")[2])
        if qualified is None:
            return ""
        const, restrict = qualified
        const = const or all(self._is_read(n) for n in nodes)
        return f"{'const ' if const else ''}{member.type}*{' __restrict__' if restrict else ''}"

    def _qualifiers(self, name: str) -> tuple[bool, bool] | None:
        """Whether the one pointer of that name in the file's structures is to const, and restricted; None if several
        are.
        """
        found = []
        for node in walk(self.file.root):
            holder = node.parent.parent if node.parent is not None else None
            if node.type != "field_declaration" or holder is None or holder.type not in _RECORDS:
                continue
            if name in WORD.findall(
                " ".join(self.code(d) for d in node.children_by_field_name("declarator"))
            ):
                words = self.code(node)
                found.append((re.search(r"\bconst\b[^*]*\*", words) is not None, "restrict" in words))
        return found[0] if len(set(found)) == 1 else None

    def _is_read(self, node: Node) -> bool:
        """Whether one use of a pointer reads an element, and no more."""
        element = node.parent
        if element is None or element.type != "subscript_expression":
            return False
        outer = element.parent
        while outer is not None and outer.type in ("field_expression", "parenthesized_expression"):
            element, outer = outer, outer.parent
        return not self._is_set(element)
