# SPDX-License-Identifier: Apache-2.0
"""Variables that a kernel declares by `auto`, with the types that they have while a rewrite reads and writes them.

What a rewrite leaves of such a declaration is `auto` again afterwards.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, parse_tree, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.cuda.values.arithmetic_types import is_double_literal, written_before
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.text import SourceText, TextEdit

#: Operators of numbers, whose result has the wider of their operands' types.
_OPERATORS = frozenset({"+", "-", "*", "/", "%", "&", "|", "^", "~"})
_BUILTIN = re.compile(r"(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[xyz]")
_QUALIFIER = re.compile(r"\b(?:const|constexpr|static|volatile|register|__restrict__)\b")
_WIDER = ("double", "float")


class Typed(msgspec.Struct, frozen=True):
    """A file whose kernel has its types written, and each declaration so, with what the user wrote."""

    text: SourceText
    declarations: tuple[tuple[str, str], ...]

    def restored(self, after: SourceText) -> SourceText:
        """What a rewrite made of the file, with `auto` where it left a declaration."""
        now = after.text
        for typed, written in self.declarations:
            now = now.replace(typed, written) if now.count(typed) == 1 else now
        return SourceText(now)


def typed_autos(text: SourceText, kernel: Kernel) -> Typed | None:
    """The file with the kernel's types written; None where it has no `auto`, or none whose type the file tells."""
    if not re.search(r"\bauto\b", text.slice(kernel.body)) or kernel.macro or kernel.broken:
        return None
    now, declarations = text, dict[str, str]()
    # what one is made of has its type by then
    while (found := _next(now, kernel)) is not None:
        edit, typed, written = found
        now, declarations = now.apply([edit]), {**declarations, typed: written}
    return Typed(now, tuple(declarations.items())) if declarations else None


def _next(text: SourceText, kernel: Kernel) -> tuple[TextEdit, str, str] | None:
    """The edit of the first declaration whose type the file tells, and it with and without."""
    file = parse_tree(text)
    expanded = kernel_tree(file, kernel)
    reader = _Reader(expanded, kernel) if expanded is not None else None
    for node in walk(reader.expanded.function.body) if reader is not None else ():
        kind = node.child_by_field_name("type") if node.type == "declaration" else None
        if reader is None or kind is None or reader.code(kind) != "auto":
            continue
        found = reader.declared(node)
        span = reader.tree.span(kind)
        written = text.slice(reader.tree.span(node)).rstrip(";")
        if found and text.slice(span) == "auto" and written.count("auto") == 1:
            return TextEdit(span, found), written.replace("auto", found), written
    return None


class _Reader:
    """The types of one kernel's variables."""

    def __init__(self, expanded: KernelTree, kernel: Kernel) -> None:
        self.expanded, self.kernel = expanded, kernel
        self.tree: SourceTree = expanded.tree
        self._pointers = PointerReader(kernel, FormReader(expanded))

    def code(self, node: Node) -> str:
        """A node's code."""
        return self.tree.code_of(node).strip()

    def declared(self, node: Node) -> str:
        """What all variables of a declaration are, as it would be written; "" where the file does not tell."""
        found = set[str]()
        for one in node.children_by_field_name("declarator"):
            name, value = one.child_by_field_name("declarator"), one.child_by_field_name("value")
            plain = one.type == "init_declarator" and name is not None and name.type == "identifier"
            found.add((self._pointer(value) or self._number(value)) if plain and value is not None else "")
        return found.pop() if len(found) == 1 else ""

    def _pointer(self, value: Node) -> str:
        """The type of a pointer into an array that the kernel is passed; "" for what is none."""
        base = value
        while base.type == "binary_expression" and base.children[1].type == "+":
            base = base.named_children[0]
        name = self.code(base) if base.type == "identifier" else ""
        found = next((p for p in self.kernel.parameters if p.name == name and p.pointer), None)
        return found.type.replace("__restrict__", "").replace(" *", "*").strip() if found is not None else ""

    def _number(self, value: Node) -> str:
        """The type of an expression of numbers; a single narrow one is no `int`."""
        while value.type == "parenthesized_expression" and value.named_child_count == 1:
            value = value.named_children[0]
        if value.type not in ("binary_expression", "unary_expression"):
            return self._leaf(value)
        operator = value.child_by_field_name("operator")
        kinds = [self._number(n) for n in value.named_children if n.type != "comment"]
        if operator is None or operator.type not in _OPERATORS or "" in kinds:
            return ""
        floating = next((kind for kind in _WIDER if kind in kinds), "")
        return floating or _joined(kinds)

    def _leaf(self, node: Node) -> str:
        """The type of a number, a variable, an element, or what is converted."""
        code, layouts = self.code(node), layouts_of(self.tree)
        found = ""
        if node.type == "number_literal":
            plain = {"": "int", "u": "unsigned int", "f": "float"}
            suffix = re.sub(r"^[\d.]*(?:e[-+]?\d+)?", "", code.lower())
            found = "double" if is_double_literal(code) else plain.get(suffix, "")
        elif node.type == "cast_expression" and (kind := node.child_by_field_name("type")) is not None:
            found = self.code(kind)
        elif _BUILTIN.fullmatch(code):
            found = "unsigned int"
        elif node.type == "subscript_expression":
            place = self._pointers.element(node)
            found = place.element_type if place is not None else ""
        elif node.type == "identifier":
            binding = self.expanded.constants.binding(code, node.start_byte)
            passed = (p.type for p in self.kernel.parameters if p.name == code and not p.pointer)
            written = next(passed, "") or (written_before(self.tree, binding) if binding is not None else "")
            found = written
        plain_type = layouts.plain(" ".join(_QUALIFIER.sub(" ", found).split()))
        number = plain_type in _WIDER or integer_type(plain_type) is not None
        return plain_type if number and "auto" not in found else ""


def _joined(kinds: list[str]) -> str:
    """The type that arithmetic of integers is done in."""
    known = [k for k in map(integer_type, kinds) if k is not None]
    width = max([4, *(k.bytes for k in known)])
    signed = all(k.signed for k in known if k.bytes == width)
    return {(True, 4): "int", (False, 4): "unsigned int", (True, 8): "long long", (False, 8): "size_t"}.get(
        (signed, width), ""
    )
