# SPDX-License-Identifier: Apache-2.0
"""A kernel's own lambdas that return one expression, written out where rewrites read only what stands there.

`auto at = [&](int dx, int dy) { return in[(y + dy) * w + x + dx]; };` and `at(1, 0)` become `in[(y + 0) * w + x + 1]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, holds, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.common.normal_bounds import WORD, BoundReader
from warplens_tools.text import SourceText, TextEdit

_EFFECT = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|\batomic\w+")
_SIMPLE = re.compile(r"[\w.]+")
#: An argument that is an integer where all its names are.
_INTEGER = re.compile(r"[\w\s()+*/%-]+")
_PLAIN = frozenset({"int", "const int", "auto", "const auto"})
_TIGHT = frozenset({"subscript_expression", "call_expression", "identifier", "number_literal"})


class _Lambda(msgspec.Struct, frozen=True):
    """One lambda: the statement that declares it, its parameters, and what it returns."""

    name: str
    statement: Node
    parameters: tuple[str, ...]
    types: tuple[str, ...]
    value: Node


def lambdas_out(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that write one lambda's calls out, and take its declaration away with the last; () if there is none."""
    reader = _Reader(text, file, kernel)
    for node in walk(reader.body) if reader.body is not None else ():
        found = reader.read(node) if node.type == "declaration" else None
        if found is not None and (edits := reader.written_out(found)):
            return edits
    return ()


class _Reader(BoundReader):
    """The lambdas of one kernel."""

    def read(self, node: Node) -> _Lambda | None:
        """The lambda that a declaration names; None for any other."""
        declarators = node.children_by_field_name("declarator")
        one = declarators[0] if len(declarators) == 1 else None
        value = one.child_by_field_name("value") if one is not None else None
        if one is None or value is None or value.type != "lambda_expression":
            return None
        body, listed = value.child_by_field_name("body"), value.child_by_field_name("declarator")
        given = listed.child_by_field_name("parameters") if listed is not None else None
        inside = [n for n in body.named_children if n.type != "comment"] if body is not None else []
        if given is None or listed is None or len(inside) != 1 or inside[0].type != "return_statement":
            return None
        if "->" in self.code(listed) or not inside[0].named_children:
            return None
        returned = inside[0].named_children[0]
        pairs = [self._parameter(n) for n in given.named_children if n.type == "parameter_declaration"]
        names, types = tuple(n for n, _ in pairs), tuple(t for _, t in pairs)
        name = self.code(one.child_by_field_name("declarator"))
        if "" in names or _EFFECT.search(self.code(returned)) or not WORD.fullmatch(name):
            return None
        kept = self.words(returned) - set(names)
        copied = "&" not in self.code(value.child_by_field_name("captures"))
        if copied and self.body is not None and any(self.changes(self.body, word) for word in kept):
            return None
        return _Lambda(name, node, names, types, returned)

    def _parameter(self, node: Node) -> tuple[str, str]:
        name = node.child_by_field_name("declarator")
        if name is None or name.type != "identifier":
            return "", ""
        return self.code(name), self.code(node)[: -len(self.code(name))].strip()

    def written_out(self, one: _Lambda) -> tuple[TextEdit, ...]:
        """The edits for its calls that hold no other call of it, and for its declaration where these are all; () for
        one that nobody calls, which is the user's."""
        uses = (
            [
                n
                for n in walk(self.body)
                if n.type == "identifier" and self.code(n) == one.name and not holds(one.statement, n)
            ]
            if self.body is not None
            else []
        )
        calls = [n.parent for n in uses]
        edits = list[TextEdit]()
        for call, use in zip(calls, uses, strict=True):
            listed = call.child_by_field_name("arguments") if call is not None else None
            if call is None or call.type != "call_expression" or listed is None:
                return ()
            if any(holds(listed, other) for other in uses if other.id != use.id):
                continue
            new = self._value(one, [n for n in listed.named_children if n.type != "comment"])
            if not new:
                return ()
            edits.append(TextEdit(self.file.span(call), new))
        if edits and len(edits) == len(uses):
            edits.append(TextEdit(self.text.with_line(self.file.span(one.statement)), ""))
        return tuple(edits)

    def _value(self, one: _Lambda, given: Sequence[Node]) -> str:
        """What a call returns; "" where its arguments might be converted or change something."""
        if len(given) != len(one.parameters):
            return ""
        names = dict[str, str]()
        for name, kind, node in zip(one.parameters, one.types, given, strict=True):
            written = self.text.slice(self.file.span(node))
            if _EFFECT.search(written) or not self._fits(kind, node):
                return ""
            names[name] = written
        if {w for text in names.values() for w in WORD.findall(text)} & self._declared_inside(one):
            return ""
        start, text, at, parts = one.value.start_byte, self.file.text_of(one.value), 0, list[str]()
        for found in walk(one.value):
            if found.type == "identifier" and self.code(found) in names:
                new = names[self.code(found)]
                parts += [text[at : found.start_byte - start], new if _SIMPLE.fullmatch(new) else f"({new})"]
                at = found.end_byte - start
        code = "".join([*parts, text[at:]])
        return code if one.value.type in _TIGHT else f"({code})"

    def _fits(self, kind: str, node: Node) -> bool:
        """Whether an argument is of its parameter's type as it stands."""
        code = self.code(node)
        if kind not in _PLAIN or not _INTEGER.fullmatch(code) or re.search(r"\d\.|\.\d", code):
            return False
        return all(self._is_integer(word) for word in self.words(node))

    def _is_integer(self, name: str) -> bool:
        """Whether every variable of that name is an integer; a constant in capitals is taken for one."""
        kinds = [p.type for p in self.kernel.parameters if p.name == name]
        for node in walk(self.body) if self.body is not None else ():
            declarators = node.children_by_field_name("declarator") if node.type == "declaration" else []
            for one in declarators:
                declared = one.child_by_field_name("declarator") if one.type == "init_declarator" else one
                if self.code(declared) == name:
                    kinds.append(self.code(node)[: declarators[0].start_byte - node.start_byte].strip())
        plain = (" ".join(w for w in kind.split() if w not in ("const", "constexpr")) for kind in kinds)
        return all(integer_type(kind) is not None for kind in plain) and (bool(kinds) or name.isupper())

    def _declared_inside(self, one: _Lambda) -> set[str]:
        return {self.code(n) for n in walk(one.value) if n.type == "parameter_declaration"}
