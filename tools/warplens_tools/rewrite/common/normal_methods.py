# SPDX-License-Identifier: Apache-2.0
"""Calls of what a structure says of its own elements, in the form that rewrites read: the elements.

Of `struct Image { float* data; int width; __device__ float get(int x, int y) const { return data[y * width + x]; } };`
`image.get(x, y)` becomes `image.data[y * image.width + x]`, and so does `image(x, y)` of an `operator()`.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.common.normal_bounds import BoundReader
from warplens_tools.text import SourceText, TextEdit

_RECORDS = frozenset({"struct_specifier", "class_specifier"})
_EFFECT = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|\w\s*\(")
_SIMPLE = re.compile(r"[\w.]+|\([^()]*\)")
_LISTS = frozenset({"argument_list", "subscript_argument_list"})


class _Method(msgspec.Struct, frozen=True):
    """A function of a structure that is one expression: its parameters, that, and what it is converted to."""

    names: tuple[str, ...]
    value: Node
    returns: str


def methods_out(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edit of the first call of a kernel that can be written out; () where there is none."""
    reader = _Reader(text, file, kernel)
    return reader.first_call(reader.written_out)


class _Reader(BoundReader):
    """The calls of one kernel."""

    def written_out(self, call: Node) -> str:
        """What a call of a parameter's function gives; "" for any other."""
        function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        holder, name = function, "operator()"
        if function is not None and function.type == "field_expression":
            holder, name = (
                function.child_by_field_name("argument"),
                self.code(function.child_by_field_name("field")),
            )
        kinds = [p.type for p in self.kernel.parameters if p.name == self.code(holder) and not p.pointer]
        if holder is None or holder.type != "identifier" or listed is None or len(kinds) != 1:
            return ""
        record = self._record(re.sub(r"\bconst\b|\bstruct\b|[&\s]|<.*", "", kinds[0]))
        found = self._method(record, name) if record is not None else None
        given = [self.text.slice(self.file.span(n)) for n in listed.named_children if n.type != "comment"]
        if (
            record is None
            or found is None
            or len(given) != len(found.names)
            or any(map(_EFFECT.search, given))
        ):
            return ""
        names = dict(zip(found.names, given, strict=True))
        members = {m: f"{self.code(holder)}.{m}" for m in self._members(record) if m not in names}
        new = self._replaced(found.value, names | members)
        outer = call.parent
        if found.returns:
            return f"({found.returns})({new})"
        alone = found.value.type == "subscript_expression" or (
            outer is not None and (outer.type in _LISTS or outer.type == "expression_statement")
        )
        return new if alone else f"({new})"

    def _record(self, name: str) -> Node | None:
        """The one structure of that name which has a body."""
        found = [
            n
            for n in walk(self.file.root)
            if n.type in _RECORDS
            and n.child_by_field_name("body") is not None
            and self.code(n.child_by_field_name("name")) == name
        ]
        return found[0] if len(found) == 1 else None

    def _members(self, record: Node) -> list[str]:
        """Names of a structure's variables."""
        found = list[str]()
        for node in self._parts(record, "field_declaration"):
            for one in node.children_by_field_name("declarator"):
                found += [self.code(n) for n in walk(one) if n.type == "field_identifier"]
        return found

    def _parts(self, record: Node, kind: str) -> list[Node]:
        body = record.child_by_field_name("body")
        return [n for n in body.named_children if n.type == kind] if body is not None else []

    def _method(self, record: Node, name: str) -> _Method | None:
        """The one function of that name, if it is one expression of its parameters and the structure's variables."""
        found = list[_Method]()
        for node in self._parts(record, "function_definition"):
            declarator = node.child_by_field_name("declarator")
            by_reference = declarator is not None and declarator.type == "reference_declarator"
            if by_reference and declarator is not None:
                declarator = declarator.named_children[-1]
            if declarator is None or declarator.type != "function_declarator":
                continue
            if "".join(self.code(declarator.child_by_field_name("declarator")).split()) != name:
                continue
            one = self._read(node, declarator, by_reference=by_reference)
            if one is None:
                return None
            found.append(one)
        plain = found[0] if found else None
        # one for constant structures, and the same for others
        alike = plain is not None and all(self.code(m.value) == self.code(plain.value) for m in found)
        known = set(self._members(record)) | set(plain.names if plain is not None else ())
        inside = (
            {self.code(n) for n in walk(plain.value) if n.type == "identifier"}
            if plain is not None
            else set()
        )
        return plain if alike and inside <= known else None

    def _read(self, node: Node, declarator: Node, *, by_reference: bool) -> _Method | None:
        listed, body = declarator.child_by_field_name("parameters"), node.child_by_field_name("body")
        kind = self.code(node.child_by_field_name("type"))
        inside = [n for n in body.named_children if n.type != "comment"] if body is not None else []
        if listed is None or len(inside) != 1 or inside[0].named_child_count != 1:
            return None
        names = list[str]()
        for one in listed.named_children:
            name = one.child_by_field_name("declarator")
            written = self.code(one)[: -len(self.code(name))].strip() if name is not None else ""
            passed = integer_type(written.removeprefix("const ").strip())
            # floats are what is stored
            if name is None or name.type != "identifier" or (passed is None and kind != "void"):
                return None
            names.append(self.code(name))
        value = inside[0].named_children[0]
        if kind == "void":
            left = value.child_by_field_name("left") if value.type == "assignment_expression" else None
            stores = inside[0].type == "expression_statement" and left is not None
            return _Method(tuple(names), value, "") if stores else None
        plain = by_reference or value.type == "subscript_expression"
        is_value = inside[0].type == "return_statement" and not _EFFECT.search(self.code(value))
        same = by_reference or self._is_element(kind, value)
        return _Method(tuple(names), value, "" if same else kind) if is_value and plain else None

    def _is_element(self, kind: str, value: Node) -> bool:
        """Whether a function returns an element as it is, of a pointer that the same structure declares."""
        base = value.child_by_field_name("argument")
        declared = rf"\b{re.escape(kind)}\s*\*[\s\w]*\b{re.escape(self.code(base))}\s*[;,]"
        return re.search(declared, self.file.text.text) is not None

    def _replaced(self, node: Node, names: dict[str, str]) -> str:
        """A node of the function with its parameters and the structure's variables replaced."""
        start, text, at, parts = node.start_byte, self.file.text_of(node), 0, list[str]()
        for found in walk(node):
            if found.type != "identifier" or self.code(found) not in names:
                continue
            new = names[self.code(found)]
            outer = found.parent
            bare = _SIMPLE.fullmatch(new) or (outer is not None and outer.type in _LISTS)
            parts += [text[at : found.start_byte - start], new if bare else f"({new})"]
            at = found.end_byte - start
        return "".join([*parts, text[at:]])
