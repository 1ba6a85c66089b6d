# SPDX-License-Identifier: Apache-2.0
"""Which numbers that are known when a program runs, and no sooner, an expression of its host code rests on.

`(n + 255) / 256` rests on what `n` was read from; 264 on nothing; of a quotient what is divided counts alone. Variables
are followed through what they are set to once, parameters through the only call of their function; numbers that the
text fixes are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from warplens_tools.cuda.syntax.functions import plain_name
from warplens_tools.cuda.values.bindings import Binding, value_node
from warplens_tools.cuda.values.writes import changes, is_set_once
from warplens_tools.tunable.source import AXES, NAME, File

#: How far variables are followed.
_MOST = 16
_NOTHING: frozenset[str] = frozenset()
#: Calls that give the same of the same: what is called with numbers of the text is one.
_PURE = re.compile(
    r"dim3|strlen|size|sizeof|min|max|ceilf?|floorf?|sqrtf?|pow|log2f?|abs|int|unsigned|size_t|u?int\d+_t|long|float"
    r"|double|(?:static|reinterpret|const)_cast"
)
#: What a name within an expression is not, by the field of its parent.
_NO_NUMBERS = frozenset({"sizeof_expression", "type_descriptor", "template_argument_list", "string_literal"})


def lengths_of(file: File, node: Node | None, *, named: bool = False) -> frozenset[str]:
    """The run's own numbers behind an expression, each by the variable or the text that it is first held by.

    With `named` the local variables that the text fixes, too: a program may say `const int n = 1 << 20`.
    """
    return frozenset(_Reader(file, named).read(node, 0)) if node is not None else _NOTHING


class _Reader:
    """Reads each variable once: an expression may name it often."""

    def __init__(self, file: File, named: bool) -> None:
        self._file, self._named = file, named
        self._known: dict[Binding, frozenset[str]] = {}

    def read(self, node: Node, depth: int) -> Iterator[str]:
        if node.type in _NO_NUMBERS:
            return
        match node.type:
            case "identifier":
                yield from self._name(node, self._file.tree.code_of(node), node.start_byte, depth)
            case "conditional_expression":
                # what a number is chosen by is no part of it
                for part in ("consequence", "alternative"):
                    yield from self._below(node.child_by_field_name(part), depth)
            case "binary_expression" if self._divides(node):
                # a quotient grows with what is divided
                yield from self._below(node.child_by_field_name("left"), depth)
            case "call_expression":
                yield from self._call(node, depth)
            case "field_expression":
                yield from self._member(node, depth)
            case "subscript_expression":
                yield _squeezed(self._file.tree.code_of(node))
            case "declaration" | "parameter_declaration" | "type_identifier":
                # `dim3 grid(columns, rows)` is taken for a function's parameters
                for name in NAME.findall(self._file.tree.code_of(node)):
                    yield from self._name(node, name, node.start_byte, depth)
            case _:
                for child in node.named_children:
                    yield from self.read(child, depth)

    def _divides(self, node: Node) -> bool:
        operator = node.child_by_field_name("operator")
        return operator is not None and operator.type in ("/", "%")

    def _below(self, node: Node | None, depth: int) -> Iterator[str]:
        if node is not None:
            yield from self.read(node, depth)

    def _call(self, node: Node, depth: int) -> Iterator[str]:
        given = node.child_by_field_name("arguments")
        found = list(self._below(given, depth))
        function = node.child_by_field_name("function")
        name = self._file.tree.code_of(function) if function is not None else ""
        if (
            not found
            and not _PURE.fullmatch(plain_name(name).rsplit("::", 1)[-1])
            and not self._defines(name)
        ):
            # `read()`, `rows.size()`
            found = [_squeezed(self._file.tree.code_of(node))]
        yield from found

    def _stays(self, binding: Binding, begins: Node | None) -> bool:
        """Whether a variable stays what it begins as. What a number is worked out for is not read into by a call."""
        tree = self._file.tree
        if binding.kind == "dim3" or is_set_once(tree, binding):
            return True
        after = tree.masked.code[binding.declaration[1] : binding.end].decode("ascii")
        worked_out = begins is not None and begins.type in (
            "binary_expression",
            "cast_expression",
            "call_expression",
        )
        return worked_out and not changes(tree, after, binding.name, by_call="none")

    def _defines(self, name: str) -> bool:
        """Whether the text itself says what a function of numbers gives."""
        return bool(self._file.tree.parameter_lists(name))

    def _member(self, node: Node, depth: int) -> Iterator[str]:
        """Of a `dim3` the one extent, all of them where the text does not tell which; of any other object the member as
        it is written."""
        if self._file.constants.value(self._file.tree.code_of(node), node.start_byte) is not None:
            return
        argument = node.child_by_field_name("argument")
        binding = self._file.named(argument)
        if argument is not None and binding is not None and binding.kind == "dim3":
            extents = self._file.extents(argument) if depth < _MOST else None
            field = node.child_by_field_name("field")
            axis = self._file.tree.code_of(field) if field is not None else ""
            if extents is None or axis not in AXES:
                yield from self.read(argument, depth)
            elif AXES.index(axis) < len(extents):
                yield from self.read(extents[AXES.index(axis)].node, depth + 1)
        else:
            yield _squeezed(self._file.tree.code_of(node))

    def _name(self, node: Node, name: str, at: int, depth: int) -> frozenset[str]:
        macro = self._file.tree.macros.get(name)
        if macro is not None and macro.parameters is None and depth < _MOST:
            inner = (one for one in NAME.findall(macro.body) if one != name)
            return frozenset(found for one in inner for found in self._name(node, one, at, depth + 1))
        binding = self._file.constants.binding(name, at)
        if binding is None:
            # an ambiguous name is the run's own; one that no text declares is a macro's or a header's
            return frozenset({name}) if self._file.constants.is_bound(name, at) else _NOTHING
        if binding not in self._known:
            # whatever rests on itself adds nothing
            self._known[binding] = _NOTHING
            self._known[binding] = frozenset(self._behind(binding, name, at, depth))
        return self._known[binding]

    def _behind(self, binding: Binding, name: str, at: int, depth: int) -> Iterator[str]:
        fixed = self._file.constants.value(name, at) is not None
        if binding.kind == "constexpr" or (fixed and not (self._named and binding.local)):
            return
        inner = value_node(self._file.tree, binding)
        if depth >= _MOST or not self._stays(binding, inner):
            yield name
            return
        if binding.kind in ("parameter", "object"):
            passed = self._file.constants.arguments(binding)
            inner = passed[0] if len(passed) == 1 else None
        if inner is None:
            yield name
            return
        found = frozenset(self.read(inner, depth + 1))
        yield from found or ({name} if fixed and binding.kind not in ("parameter", "object") else ())


def _squeezed(text: str) -> str:
    return "".join(text.split())
