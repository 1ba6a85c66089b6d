# SPDX-License-Identifier: Apache-2.0
"""Who calls whom in a file: the functions that code names, the calls of a function, what they pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from warplens_tools.cuda.syntax.definitions import words_of
from warplens_tools.cuda.syntax.functions import Function, functions_of, plain_name
from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.cuda.syntax.tree import SourceTree

_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=.*)?\Z", re.DOTALL)


def own_name(tree: SourceTree, function: Function) -> str:
    """The function's name without namespaces, classes and template arguments."""
    return plain_name(tree.text_of(function.name_node)).rsplit("::", 1)[-1]


def functions_named(tree: SourceTree, name: str) -> list[Function]:
    """The file's functions whose own name that is, in text order."""
    return tree.remembered("functions by name", lambda: _by_name(tree)).get(name, [])


def _by_name(tree: SourceTree) -> dict[str, list[Function]]:
    found: dict[str, list[Function]] = {}
    for function in functions_of(tree):
        found.setdefault(own_name(tree, function), []).append(function)
    return found


def parameter_names(tree: SourceTree, function: Function) -> list[str]:
    """The names of a function's parameters, in order."""
    listed = function.declarator.child_by_field_name("parameters")
    if listed is None:
        return []
    written = split_arguments(tree.code_of(listed).strip().removeprefix("(").removesuffix(")"))
    return [found[1] if (found := _NAME.search(p.strip())) is not None else "" for p in written]


def directly_called(tree: SourceTree, code: str) -> list[Node]:
    """The definitions of the file's functions that `code` names."""
    names = words_of(code) & tree.remembered("functions by name", lambda: _by_name(tree)).keys()
    return [function.node for name in sorted(names) for function in functions_named(tree, name)]


def called_names(tree: SourceTree, code: str) -> frozenset[str]:
    """Names of the file's functions that `code` may call, directly or not; by name alone."""
    table = tree.remembered("words of functions", lambda: _words(tree))
    found: set[str] = set()
    new = words_of(code) & table.keys()
    while new:
        found |= new
        new = frozenset(name for one in new for name in table[one] & table.keys()) - found
    return frozenset(found)


def called_code(tree: SourceTree, code: str) -> str:
    """The bodies of those functions."""
    bodies = (f.body for name in called_names(tree, code) for f in functions_named(tree, name))
    return "\n".join(tree.code_of(body) for body in sorted(bodies, key=lambda body: body.start_byte))


def _words(tree: SourceTree) -> Mapping[str, frozenset[str]]:
    return {
        name: frozenset().union(*(words_of(tree.code_of(f.body)) for f in found))
        for name, found in _by_name(tree).items()
    }


def calls_of(tree: SourceTree, name: str) -> tuple[Node, ...]:
    """The names in the file's calls of a function, in text order."""
    return tree.remembered(("calls of", name), lambda: tuple(n for n in _named(tree, name) if _is_called(n)))


def arguments_for(tree: SourceTree, parameter: Node) -> tuple[Node, ...]:
    """What every call in the file passes for a parameter of a host function, or of its template.

    Nothing where it is called nowhere, where the function may be called unseen (its address is taken, it has several
    definitions), or where a call leaves the argument out.
    """
    return tree.remembered(("arguments for", parameter.id), lambda: _arguments_for(tree, parameter))


def _arguments_for(tree: SourceTree, parameter: Node) -> tuple[Node, ...]:
    listed = parameter.parent
    function = tree.function_at(parameter.start_byte, parameter.end_byte)
    if function is None and listed is not None and listed.parent is not None:
        function = next((c for c in listed.parent.named_children if c.type == "function_definition"), None)
    found = _by_node(tree).get(function.id) if function is not None else None
    if found is None or listed is None or found.is_kernel or found.is_device:
        return ()
    is_template = listed.type == "template_parameter_list"
    name, index = own_name(tree, found), [c.id for c in listed.named_children].index(parameter.id)
    uses = [n for n in _named(tree, name) if not _declares(n)]
    if len(functions_named(tree, name)) > 1 or not all(map(_is_called, uses)):
        return ()
    passed = [_argument(node, index, template=is_template) for node in uses]
    return tuple(p for p in passed if p is not None) if None not in passed else ()


def _by_node(tree: SourceTree) -> dict[int, Function]:
    return tree.remembered("functions by node", lambda: {f.node.id: f for f in functions_of(tree)})


def _named(tree: SourceTree, name: str) -> Iterator[Node]:
    """The identifiers of that name, in text order."""
    # The name comes first, which lets the search skip to where it stands.
    for found in re.finditer(rf"{re.escape(name)}(?<!\w{re.escape(name)})\b", tree.masked.source):
        node = tree.root.descendant_for_byte_range(*found.span())
        if node is not None and node.type == "identifier":
            yield node


def _instance(node: Node) -> Node:
    """The name with what its template is given, in `run<256>`."""
    return node.parent if node.parent is not None and node.parent.type == "template_function" else node


def _callee(node: Node) -> Node:
    """The whole name in `run<256>`, and in `ops::run<256>`."""
    whole = _instance(node)
    while whole.parent is not None and whole.parent.type == "qualified_identifier":
        if whole.parent.child_by_field_name("name") != whole:
            break
        whole = whole.parent
    return whole


def _is_called(node: Node) -> bool:
    whole = _callee(node)
    function = whole.parent.child_by_field_name("function") if whole.parent is not None else None
    is_call = whole.parent is not None and whole.parent.type == "call_expression"
    return is_call and function is not None and function.id == whole.id


def _declares(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "function_declarator"


def _argument(node: Node, index: int, *, template: bool) -> Node | None:
    whole = _callee(node)
    field, holder = "arguments", _instance(node) if template else whole.parent
    listed = holder.child_by_field_name(field) if holder is not None else None
    arguments = listed.named_children if listed is not None else []
    return arguments[index] if index < len(arguments) else None
