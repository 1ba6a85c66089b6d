# SPDX-License-Identifier: Apache-2.0
"""The other places in a file that spell out a kernel's signature."""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, Parameter
from warplens_tools.cuda.syntax.declarators import read_parameters
from warplens_tools.cuda.syntax.functions import find_functions, plain_name, scope_names
from warplens_tools.cuda.syntax.tree import SourceTree

_INSTANTIATED = "(template_instantiation) @instantiation"


class Signatures(msgspec.Struct, frozen=True):
    """Where else a signature stands."""

    #: The parameters of each forward declaration, in the definition's order.
    declarations: tuple[tuple[Parameter, ...], ...]
    #: Explicit instantiations, specialisations, or typed function pointers name the parameter types.
    fixed: bool


def other_signatures(tree: SourceTree, kernel: Kernel) -> Signatures:
    """Forward declarations of `kernel` with the same parameter types, and whether its types are fixed."""
    found: list[tuple[Parameter, ...]] = []
    wanted = [_types(p) for p in kernel.parameters]
    nodes = (n for leaf in tree.leaves for kind in ("declaration", "field") for n in tree.nodes(kind, leaf))
    for node in nodes:
        parameters = _declared(tree, node, kernel)
        if parameters is not None and [_types(p) for p in parameters] == wanted:
            found.append(parameters)
    return Signatures(tuple(found), _is_fixed(tree, kernel))


def _declared(tree: SourceTree, node: Node, kernel: Kernel) -> tuple[Parameter, ...] | None:
    declarator = node.child_by_field_name("declarator")
    if declarator is None or declarator.type != "function_declarator" or _in_body(node):
        return None
    name, listed = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("parameters")
    if (
        name is None
        or listed is None
        or "__global__" not in tree.words(_line_start(tree, node), declarator.start_byte)
    ):
        return None
    whole = "::".join([*scope_names(tree, node), plain_name(tree.text_of(name))])
    return read_parameters(tree, listed) if whole == kernel.qualified_name else None


def _line_start(tree: SourceTree, node: Node) -> int:
    """Where white space before the node begins: a taken-out specifier macro may stand there."""
    return len(tree.masked.code[: node.start_byte].rstrip())


def _in_body(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "compound_statement"


def _types(parameter: Parameter) -> str:
    """The type that overload resolution sees."""
    return " ".join(
        re.sub(r"\b(?:__restrict__|__restrict)\b", "", parameter.type).replace("*", " * ").split()
    )


def _is_fixed(tree: SourceTree, kernel: Kernel) -> bool:
    named = re.compile(rf"\b{re.escape(kernel.name)}\b")
    if any(named.search(tree.code_of(n)) for n in tree.captures(_INSTANTIATED).get("instantiation", [])):
        return True
    same = [
        f
        for f in find_functions(tree)
        if plain_name(tree.text_of(f.name_node)).rsplit("::")[-1] == kernel.name
    ]
    pointer = rf"\(\s*\*\s*\w*\s*\)\s*\([^()]*\)\s*(?:=|\))\s*\(?\s*&?\s*{re.escape(kernel.name)}\b"
    return len(same) > 1 or re.search(pointer, tree.masked.source) is not None
