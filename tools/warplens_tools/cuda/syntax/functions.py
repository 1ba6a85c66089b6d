# SPDX-License-Identifier: Apache-2.0
"""Function definitions: headers, execution spaces, names. Kernels and device functions start here."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.macros import MacroUse
from warplens_tools.cuda.syntax.tree import SourceTree


class Function(msgspec.Struct, frozen=True):
    """One function definition of the tree."""

    node: Node
    declarator: Node
    name_node: Node
    body: Node
    #: Offset at which the definition starts, `template` and taken-out macros included.
    start: int
    #: The header's words, with the expansions of what was taken out.
    header: str
    #: The macro through which the header is written; None for plain text.
    macro: MacroUse | None = None

    @property
    def is_kernel(self) -> bool:
        """Whether it is a `__global__` function."""
        return "__global__" in self.header

    @property
    def is_device(self) -> bool:
        """Whether it is a `__device__` function."""
        return "__device__" in self.header


def find_functions(tree: SourceTree) -> list[Function]:
    """Every function definition with a name and a body, in file order."""
    return [f for f in (read_function(tree, node) for node in tree.functions) if f]


def functions_of(tree: SourceTree) -> tuple[Function, ...]:
    """The function definitions of a tree, found once."""
    return tree.remembered("functions", lambda: tuple(find_functions(tree)))


def read_function(tree: SourceTree, node: Node) -> Function | None:
    """The parts of a function definition; None where it has no name or body."""
    declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator") or next(
            (c for c in declarator.named_children if c.type.endswith("declarator")), None
        )
    if body is not None and body.type == "try_statement":  # int main() try { … } catch (…) { … }
        body = body.child_by_field_name("body")
    if declarator is None or body is None or body.type != "compound_statement":
        return None
    name = declarator.child_by_field_name("declarator")
    if name is None:
        return None
    before = _uses_before(tree, _outermost(node).start_byte)
    start = before[0].start if before else _outermost(node).start_byte
    header = tree.words(start, declarator.start_byte) + tree.words(declarator.end_byte, body.start_byte)
    uses = [*before, *tree.uses(node.start_byte, declarator.end_byte)]
    macro = next((use for use in uses if use.kind == "header"), None)
    macro = macro or next((use for use in uses if "__global__" in use.expansion), None)
    return Function(node, declarator, name, body, start, header, macro)


def _outermost(node: Node) -> Node:
    """The definition with its `template` head and single `extern "C"`."""
    while node.parent is not None and node.parent.type in ("template_declaration", "linkage_specification"):
        node = node.parent
    return node


def _uses_before(tree: SourceTree, start: int) -> list[MacroUse]:
    """Specifiers and headers taken out of the white space in front of `start`."""
    code = tree.masked.code
    low = (
        len(code[:start].rstrip())
        if start < 4096
        else start - 4096 + len(code[start - 4096 : start].rstrip())
    )
    uses = tree.uses(low, start)
    whole = max((i for i, use in enumerate(uses) if use.kind == "kernel"), default=-1)
    return uses[whole + 1 :]


def scope_names(tree: SourceTree, node: Node) -> list[str]:
    """Names of the namespaces and classes around `node`, outermost first."""
    names: list[str] = []
    current = node.parent
    while current is not None:
        if current.type == "namespace_definition":
            name = current.child_by_field_name("name")
            names.append(_squeezed(tree.text_of(name)) if name is not None else "(anonymous namespace)")
        elif current.type in ("struct_specifier", "class_specifier", "union_specifier"):
            name = current.child_by_field_name("name")
            if name is not None:
                names.append(plain_name(tree.text_of(name)))
        current = current.parent
    return names[::-1]


def plain_name(text: str) -> str:
    """A name without template arguments anywhere: "Tile<T>::run<4>" becomes "Tile::run"."""
    parts, depth = [], 0
    for char in text:
        depth += (char == "<") - (char == ">")
        if depth == 0 and char != ">" and not char.isspace():
            parts.append(char)
    return "".join(parts)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def qualified_name(tree: SourceTree, function: Function, name: str) -> str:
    """`name` with the namespaces and classes around the function and in its own declarator."""
    return "::".join([*scope_names(tree, function.node), name])


def is_extern_c(function: Function) -> bool:
    """Whether the function has C linkage."""
    if re.search(r'extern\s*"C"', function.header):
        return True
    node: Node | None = function.node
    while node is not None:
        if node.type == "linkage_specification":
            value = node.child_by_field_name("value")
            return value is not None and value.text == b'"C"'
        node = node.parent
    return False
