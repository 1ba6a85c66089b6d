# SPDX-License-Identifier: Apache-2.0
"""Which pointer parameters a kernel only reads through, so that their data may be declared const."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.facts.accesses import AccessReader
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import kernel_tree

#: Built-in functions that read through a pointer-to-const.
_READS = re.compile(r"__ld(?:g|cg|ca|cs|lu|cv)|__prefetch\w*")
_CONST_CAST = re.compile(
    r"(?:reinterpret_cast|static_cast)\s*<\s*(?:const\b.*|.*\bconst\s*\*\s*)>", re.DOTALL
)
_COMPARISONS = frozenset({"==", "!=", "&&", "||"})


def only_read(tree: SourceTree, kernel: Kernel) -> frozenset[str]:
    """Names of the pointer parameters whose data can become const and still compile.

    Nothing writes through them, directly or through a local pointer, and every use is one that a pointer
    to const allows: an access, a pointer to const or `auto`, a function that takes a pointer to const.
    """
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return frozenset()
    names = {p.name for p in kernel.parameters if p.pointer and p.name}
    written = set(AccessReader(FormReader(expanded), kernel).written())
    body = expanded.function.body
    for node in expanded.tree.captures("(identifier) @name", body).get("name", []):
        name = expanded.tree.text_of(node)
        if name in names and not _allows_const(expanded.tree, node):
            written.add(name)
    return frozenset(names - written)


def _allows_const(tree: SourceTree, node: Node) -> bool:
    """Whether the use of a pointer at `node` also compiles for a pointer to const."""
    while node.parent is not None:
        parent = node.parent
        verdict = _step(tree, parent, node)
        if verdict is not None:
            return verdict
        node = parent
    return False


def _step(tree: SourceTree, parent: Node, node: Node) -> bool | None:
    """True or False where `parent` decides; None where its value is such a pointer again."""
    if parent.type == "subscript_expression":
        return not _address_is_taken(tree, parent) if _is(parent, "argument", node) else True
    if parent.type == "pointer_expression":
        return tree.code_of(parent).startswith("*")
    if parent.type == "binary_expression":
        operator = parent.child_by_field_name("operator")
        return True if operator is not None and operator.type in _COMPARISONS else None
    if parent.type == "parenthesized_expression":
        return None
    if parent.type == "field_expression":
        return parent.parent is None or not _is(parent.parent, "function", parent)
    if parent.type == "init_declarator":
        return _declares_const(tree, parent)
    if parent.type == "cast_expression":
        return "const" in tree.code_of(parent).split(")")[0].split("(")[-1].split()
    if parent.type == "argument_list":
        return _argument_allows_const(tree, parent, node)
    return parent.type in ("if_statement", "condition_clause")


def _address_is_taken(tree: SourceTree, node: Node) -> bool:
    """`&a[i]`: the pointer goes on; judged by where it goes."""
    parent = node.parent
    while parent is not None and parent.type in ("parenthesized_expression", "field_expression"):
        node, parent = parent, parent.parent
    if parent is None or parent.type != "pointer_expression" or not tree.code_of(parent).startswith("&"):
        return False
    return not _allows_const(tree, parent)


def _is(parent: Node, field: str, child: Node) -> bool:
    found = parent.child_by_field_name(field)
    return found is not None and found.id == child.id


def _declares_const(tree: SourceTree, node: Node) -> bool:
    """`const float* p = a` or `auto p = a`; what `auto` makes of it is followed by the accesses."""
    declaration = node.parent
    declared = declaration.child_by_field_name("type") if declaration is not None else None
    declarator = node.child_by_field_name("declarator")
    if declaration is None or declared is None or declarator is None:
        return False
    before = tree.code_of(declaration)[: declarator.start_byte - declaration.start_byte]
    return "const" in before.split() or tree.code_of(declared) == "auto"


def _argument_allows_const(tree: SourceTree, listed: Node, node: Node) -> bool | None:
    call = listed.parent
    function = call.child_by_field_name("function") if call is not None else None
    name = tree.code_of(function).strip() if function is not None else ""
    if _CONST_CAST.fullmatch(name) or _READS.fullmatch(name):
        return True
    plain = name.split("<")[0].strip().rsplit("::", 1)[-1]
    index = [n.id for n in listed.named_children].index(node.id)
    return _takes_const(tree, plain, index)


def _takes_const(tree: SourceTree, name: str, index: int) -> bool:
    """Whether every definition of `name` in the file takes a pointer to const there."""
    taken = [split_arguments(parameters) for parameters in tree.parameter_lists(name)]
    return bool(taken) and all(len(p) > index and re.search(r"\bconst\b[^*]*\*", p[index]) for p in taken)
