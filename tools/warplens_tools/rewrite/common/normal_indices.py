# SPDX-License-Identifier: Apache-2.0
"""Calls of the file's own functions of integers, in the form that rewrites read: what they return.

`mirror(x - 1, width)` becomes `x - 1 < 0 ? -(x - 1) : x - 1 >= width ? 2 * width - 2 - (x - 1) : x - 1`, and
`at(x, y, width)` becomes `y * width + x`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.functions import functions_of
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.constants import layouts_of
from warplens_tools.rewrite.common.normal_bounds import BoundReader
from warplens_tools.text import SourceText, TextEdit

_INTEGER = re.compile(r"(?:const\s+)?int(?:\s+const)?")
_SIMPLE = re.compile(r"\w+|\([^()]*\)")
_PLAIN = frozenset(
    {
        "binary_expression",
        "unary_expression",
        "parenthesized_expression",
        "conditional_expression",
        "number_literal",
        "identifier",
        "field_expression",
        "field_identifier",
    }
)
_LISTS = frozenset({"argument_list", "subscript_argument_list"})
#: Text that comes out of calls within calls stays short.
_MOST_CHARACTERS = 200
_EXTREMES = {"max", "min"}


def indices_out(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edit of the first call of a kernel that can be written out; () where there is none."""
    reader = _Reader(text, file, kernel)
    return reader.first_call(reader.written_out)


def _is_extreme(node: Node) -> bool:
    """Whether it is a call of `max` or `min`, or its list."""
    call = node.parent if node.type == "argument_list" else node
    function = (
        call.child_by_field_name("function") if call is not None and call.type == "call_expression" else None
    )
    return function is not None and function.text in (b"max", b"min")


class _Reader(BoundReader):
    """The calls of one kernel."""

    def written_out(self, call: Node) -> str:
        """What a call of a function of integers gives; "" for any other."""
        function, listed = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or listed is None or function.type != "identifier":
            return ""
        found = self._function(self.code(function))
        given = [n for n in listed.named_children if n.type != "comment"]
        if found is None or len(given) != len(found[0]) or not all(self._is_plain(n) for n in given):
            return ""
        names, value = found
        arguments = dict(zip(names, (self.text.slice(self.file.span(n)) for n in given), strict=True))
        new = self._joined(value, arguments)
        if len(new) > _MOST_CHARACTERS:
            return ""
        outer = call.parent
        alone = outer is not None and (outer.type in _LISTS or outer.type == "init_declarator")
        return new if alone else f"({new})"

    def _function(self, name: str) -> tuple[tuple[str, ...], list[tuple[Node | None, Node]]] | None:
        """A function's parameters, and what it returns under which conditions, the last under none."""
        known = [f for f in functions_of(self.file) if f.is_device and self.code(f.name_node) == name]
        if len(known) != 1 or known[0].is_kernel:
            return None
        function, declarator = known[0].node, known[0].node.child_by_field_name("declarator")
        kind = function.child_by_field_name("type")
        listed = declarator.child_by_field_name("parameters") if declarator is not None else None
        if kind is None or listed is None or not _INTEGER.fullmatch(self.code(kind)):
            return None
        names = list[str]()
        for one in listed.named_children:
            inner = one.child_by_field_name("declarator")
            if (
                inner is not None
                and inner.type == "reference_declarator"
                and self.code(one).startswith("const ")
            ):
                inner = inner.named_children[0]
            if one.type != "parameter_declaration" or inner is None or inner.type != "identifier":
                return None
            written = self.code(one)[: -len(self.code(inner))].strip(" &")
            if not _INTEGER.fullmatch(written) and not self._is_of_integers(written):
                return None
            names.append(self.code(inner))
        returned = self._returned([n for n in known[0].body.named_children if n.type != "comment"])
        parts = [n for pair in returned for n in pair if n is not None]
        inside = {self.code(n) for part in parts for n in walk(part) if n.type == "identifier"} - _EXTREMES
        own = _EXTREMES & {self.code(f.name_node) for f in functions_of(self.file)}
        # several cases and a division: it is written so to spare divisions
        spares = len(returned) > 1 and any("%" in self.code(part) for part in parts)
        plain = inside <= set(names) and not own and not spares
        return (tuple(names), returned) if returned and plain else None

    def _is_of_integers(self, kind: str) -> bool:
        """Whether a type is a structure of the file, which has no numbers but `int`."""
        record = layouts_of(self.file).record(kind.removeprefix("const ").strip())
        numbers = [m.type for m in record.members if not m.pointer] if record is not None else []
        return record is not None and all(_INTEGER.fullmatch(n) for n in numbers)

    def _returned(self, nodes: Sequence[Node]) -> list[tuple[Node | None, Node]]:
        """`if (…) return a; return b;` as pairs; [] for a body that does anything else."""
        found = list[tuple[Node | None, Node]]()
        for at, node in enumerate(nodes):
            last = at == len(nodes) - 1
            condition = None
            if node.type == "if_statement" and not last and node.child_by_field_name("alternative") is None:
                condition = node.child_by_field_name("condition")
                inside = node.child_by_field_name("consequence")
                while inside is not None and inside.type == "compound_statement":
                    inside = inside.named_children[0] if inside.named_child_count == 1 else None
                if condition is None or inside is None:
                    return []
                condition, node = condition.named_children[0], inside
            if node.type != "return_statement" or (condition is None) != last or node.named_child_count != 1:
                return []
            parts = [n for n in (condition, node.named_children[0]) if n is not None]
            if not all(self._is_plain(n) for n in parts):
                return []
            found.append((condition, node.named_children[0]))
        return found

    @staticmethod
    def _is_plain(node: Node) -> bool:
        """Whether an expression is made of integers alone, and may be worked out as often as wished."""
        return all(n.type in _PLAIN or _is_extreme(n) for n in walk(node) if n.is_named)

    def _joined(self, returned: Sequence[tuple[Node | None, Node]], arguments: dict[str, str]) -> str:
        parts = list[str]()
        for condition, value in returned:
            test = f"{self._replaced(condition, arguments)} ? " if condition is not None else ""
            parts.append(test + self._replaced(value, arguments))
        return " : ".join(parts)

    def _replaced(self, node: Node, arguments: dict[str, str]) -> str:
        """A node of the function with its parameters replaced."""
        start, text, at, parts = node.start_byte, self.file.text_of(node), 0, list[str]()
        for found in walk(node):
            if found.type != "identifier" or self.code(found) not in arguments:
                continue
            new = arguments[self.code(found)]
            bare = _SIMPLE.fullmatch(new) or found.id == node.id
            parts += [text[at : found.start_byte - start], new if bare else f"({new})"]
            at = found.end_byte - start
        return "".join([*parts, text[at:]])
