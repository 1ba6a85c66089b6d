# SPDX-License-Identifier: Apache-2.0
"""Kernels: from function definitions, and from the macros that make them."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel, LaunchBounds, Parameter
from warplens_tools.cuda.surface import surface_of
from warplens_tools.cuda.syntax.declarators import read_declarator, read_parameters
from warplens_tools.cuda.syntax.functions import Function, is_extern_c, plain_name, qualified_name
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.arrays import read_arrays
from warplens_tools.cuda.values.constants import Constants
from warplens_tools.text import Span

_WORD = re.compile(r"[A-Za-z_]\w*")
_BOUNDS_WORD = re.compile(rb"__launch_bounds__")
_BOUNDS_TEXT = re.compile(r"__launch_bounds__\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")


def plain_kernel(tree: SourceTree, constants: Constants, function: Function, names: frozenset[str]) -> Kernel:
    """As `read_kernel`, of a kernel that no macro writes: read again only where what it rests on has changed."""
    start, end = function.start, function.node.end_byte
    line, column = tree.text.position(start)
    if function.macro is not None or _is_broken(tree, function):
        return read_kernel(tree, constants, function, names)
    key = (
        "kernel",
        surface_of(tree),
        *(text[start:end] for text in (tree.text.text, tree.masked.source, tree.masked.code)),
        qualified_name(tree, function, ""),
        template_parameters(tree, function.node),
        is_extern_c(function),
        column,
    )
    known: tuple[int, Kernel] | None = tree.carried(key)
    if known is None:
        known = line, read_kernel(tree, constants, function, names)
        tree.carry(key, known)
    return known[1].moved(line - known[0])


def read_kernel(tree: SourceTree, constants: Constants, function: Function, names: frozenset[str]) -> Kernel:
    """A kernel's model; `names` are the functions that the file defines."""
    declared = plain_name(tree.text_of(function.name_node))
    return Kernel(
        name=declared.rsplit("::", 1)[-1],
        qualified_name=qualified_name(tree, function, declared),
        parameters=_parameters(tree, function),
        span=tree.text_span(function.start, function.node.end_byte),
        name_span=tree.span(_last_name(function.name_node)),
        body=tree.span(function.body),
        template_parameters=template_parameters(tree, function.node),
        launch_bounds=_launch_bounds(tree, constants, function),
        arrays=read_arrays(tree, constants, function.body),
        extern_c=is_extern_c(function),
        calls=_calls(tree, function.body, names),
        macro=function.macro.name if function.macro else "",
        broken=_is_broken(tree, function),
    )


def _parameters(tree: SourceTree, function: Function) -> tuple[Parameter, ...]:
    """The parameters, of which nothing rests on other text unless macros stand among them."""
    listed = function.declarator.child_by_field_name("parameters")
    if listed is None:
        return ()
    written, span = tree.text_of(listed), tree.span(listed)
    key = ("parameters", written, tree.code_of(listed), tree.words(listed.start_byte, listed.end_byte), span)
    found: tuple[Parameter, ...] | None = tree.carried(key)
    if found is None:
        found = read_parameters(tree, listed)
        tree.carry(key, found)
    return found


def _last_name(node: Node) -> Node:
    """The name itself in `Tile<T>::run<4>`."""
    while node.type in ("qualified_identifier", "template_function"):
        below = node.child_by_field_name("name")
        if below is None:
            break
        node = below
    return node


def _is_broken(tree: SourceTree, function: Function) -> bool:
    return function.node.has_error or any(
        function.start <= at <= function.node.end_byte for at in tree.masked.repairs
    )


def template_parameters(tree: SourceTree, node: Node) -> tuple[str, ...]:
    """Names of the template parameters of the function itself and of the classes around it."""
    names: list[str] = []
    current = node.parent
    while current is not None:
        if current.type == "template_declaration":
            listed = current.child_by_field_name("parameters")
            names = [*_parameter_names(tree, listed), *names] if listed is not None else names
        current = current.parent
    return tuple(names)


def _parameter_names(tree: SourceTree, listed: Node) -> list[str]:
    names = []
    for parameter in listed.named_children:
        declared = parameter.child_by_field_name("declarator") or parameter.child_by_field_name("name")
        name = read_declarator(declared).name if declared is not None else None
        if name is None:
            name = next((c for c in parameter.named_children if c.type == "type_identifier"), None)
        names.append(tree.text_of(name) if name is not None else "")
    return names


def _launch_bounds(tree: SourceTree, constants: Constants, function: Function) -> LaunchBounds | None:
    start, end = function.start, function.body.start_byte
    nodes = [n for n in _bounds_nodes(tree, function) if start <= n.start_byte < end]
    if nodes:
        parts = [tree.text_of(n) for n in nodes[0].named_children]
        return _bounds(constants, parts, start, tree.span(nodes[0]))
    for use in tree.uses(start, end):
        found = _BOUNDS_TEXT.search(use.expansion)
        if found:
            parts = [p.strip() for p in found[1].split(",")]
            return _bounds(constants, parts, start, tree.text_span(use.start, use.end))
    return None


def _bounds_nodes(tree: SourceTree, function: Function) -> list[Node]:
    """The launch bounds in a function's header, found by their word: no walk of the body."""
    start, end = function.node.start_byte, function.body.start_byte
    found: list[Node] = []
    for word in _BOUNDS_WORD.finditer(tree.masked.code, start, end):
        node = tree.root.descendant_for_byte_range(*word.span())
        while node is not None and node.type != "launch_bounds" and node.start_byte >= start:
            node = node.parent
        if node is not None and node.type == "launch_bounds":
            found.append(node)
    return found


def _bounds(constants: Constants, parts: list[str], at: int, span: Span) -> LaunchBounds | None:
    if not parts:
        return None
    second = parts[1] if len(parts) > 1 else ""
    return LaunchBounds(
        max_threads=parts[0],
        min_blocks=second,
        max_threads_value=constants.value(parts[0], at),
        min_blocks_value=constants.value(second, at) if second else None,
        span=span,
    )


def _calls(tree: SourceTree, body: Node, names: frozenset[str]) -> tuple[str, ...]:
    code = tree.code_of(body)
    present = sorted(names.intersection(_WORD.findall(code)))
    if not present:
        return ()
    return tuple(dict.fromkeys(re.findall(rf"\b({'|'.join(present)})\s*[(<]", code)))
