# SPDX-License-Identifier: Apache-2.0
"""Square roots and quotients that nothing but a comparison uses: `sqrt(x) < r` asks what `x < r * r` does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.around import loops_around
from warplens_tools.cuda.syntax.callees import called_names, functions_named
from warplens_tools.cuda.syntax.functions import Function
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import KernelTree, kernel_tree
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.text import Span

_ROOTS = re.compile(r"(?:::|std::)?(?:sqrtf?|__fsqrt_r[nzud]|hypotf?|norm3d(?:f)?)|glm::(?:length|distance)")
#: Functions that programs call their lengths; only where the file's own take a root.
_OWN_ROOTS = re.compile(r"\w*(?:length|distance|dist|norm)\w*", re.IGNORECASE)
_COMPARISONS = frozenset({"<", "<=", ">", ">="})
_FLOAT = re.compile(r"\b(?:float|double|real|scalar|T)\b", re.IGNORECASE)


class Compared(msgspec.Struct, frozen=True):
    """One root or quotient that is only compared, in a loop or in a function that a loop calls."""

    kind: Literal["root", "quotient"]
    #: The call, or the division.
    span: Span
    #: The device function it stands in; "" for the kernel itself.
    function: str


def compared_only(tree: SourceTree, kernel: Kernel) -> tuple[Compared, ...]:
    """Those of the kernel, then those of the functions of its file that it calls, in text order each."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    code = expanded.tree.code_of(expanded.function.body)
    if not any(word in code for word in ("/", "sqrt", "hypot", "norm", "length", "dist")) and "(" not in code:
        return ()
    found = list(_roots(expanded.tree, expanded.function.body, "", looped=False))
    found += _quotients(expanded, kernel)
    names = called_names(tree, code)
    for name in sorted(names):
        looped = _is_called_in_loop(expanded.tree, expanded.function.body, name, names)
        for function in functions_named(tree, name):
            if function.is_device:
                found += _roots(tree, function.body, name, looped=looped)
                found += _returned_quotient(tree, function, name, expanded)
    return tuple(found)


def _roots(tree: SourceTree, body: Node, function: str, *, looped: bool) -> Iterator[Compared]:
    for node in walk(body):
        asked = (
            node.type == "call_expression" and _is_root(tree, node) and (looped or loops_around(tree, node))
        )
        if asked and (_is_compared(node) or _is_kept_to_compare(tree, body, node)):
            yield Compared("root", tree.span(node), function)


def _is_root(tree: SourceTree, call: Node) -> bool:
    callee = call.child_by_field_name("function")
    name = "".join(tree.code_of(callee).split()) if callee is not None else ""
    if _ROOTS.fullmatch(name):
        return True
    plain = name.rsplit("::", 1)[-1]
    if not _OWN_ROOTS.fullmatch(plain):
        return False
    own = functions_named(tree.file, plain)
    return bool(own) and all(
        re.match(r"\s*\{\s*return\s+(?:std::)?sqrtf?\b", tree.file.code_of(f.body)) for f in own
    )


def _outside(node: Node) -> Node | None:
    """What an expression is part of, past parentheses."""
    around = node.parent
    while around is not None and around.type == "parenthesized_expression":
        around = around.parent
    return around


def _is_compared(node: Node) -> bool:
    around = _outside(node)
    operator = around.child_by_field_name("operator") if around is not None else None
    return (
        around is not None
        and around.type == "binary_expression"
        and (operator is not None and operator.type in _COMPARISONS)
    )


def _is_kept_to_compare(tree: SourceTree, body: Node, call: Node) -> bool:
    """Whether a local is set to the value, once, and every use of it is a comparison."""
    around = _outside(call)
    if around is None or around.type != "init_declarator":
        return False
    declared = around.child_by_field_name("declarator")
    if declared is None or declared.type != "identifier":
        return False
    name = tree.code_of(declared)
    uses = [
        n for n in walk(body) if n.type == "identifier" and tree.code_of(n) == name and n.id != declared.id
    ]
    return bool(uses) and all(_is_compared(use) for use in uses)


def _quotients(expanded: KernelTree, kernel: Kernel) -> Iterator[Compared]:
    """Divisions of floating-point values in the kernel's loops that are compared as they are."""
    tree, types = expanded.tree, None
    for node in walk(expanded.function.body):
        if (
            node.type == "binary_expression"
            and _divides(node)
            and _is_compared(node)
            and loops_around(tree, node)
        ):
            if types is None:
                forms = FormReader(expanded)
                types = TypeReader(forms, PointerReader(kernel, forms))
            if types.type(node) in ("float", "double") and not _is_constant(
                node.child_by_field_name("right")
            ):
                yield Compared("quotient", tree.span(node), "")


def _divides(node: Node) -> bool:
    operator = node.child_by_field_name("operator")
    return operator is not None and operator.type == "/"


def _is_constant(node: Node | None) -> bool:
    return node is None or node.type == "number_literal"


def _returned_quotient(
    tree: SourceTree, function: Function, name: str, expanded: KernelTree
) -> Iterator[Compared]:
    """What a function returns as `a / b`, where every call of the kernel's compares it."""
    head = tree.code_of(function.node).split(name, 1)[0]
    returned = [n for n in walk(function.body) if n.type == "return_statement"]
    value = returned[0].named_children[0] if len(returned) == 1 and returned[0].named_children else None
    if value is None or not _FLOAT.search(head) or value.type != "binary_expression" or not _divides(value):
        return
    calls = _calls(expanded.tree, expanded.function.body, name)
    if calls and all(_is_compared(c) for c in calls) and any(loops_around(expanded.tree, c) for c in calls):
        yield Compared("quotient", tree.span(value), name)


def _calls(tree: SourceTree, body: Node, name: str) -> list[Node]:
    found = []
    for node in walk(body):
        callee = node.child_by_field_name("function") if node.type == "call_expression" else None
        if callee is not None and tree.code_of(callee).split("<")[0].strip().rsplit("::", 1)[-1] == name:
            found.append(node)
    return found


def _is_called_in_loop(tree: SourceTree, body: Node, name: str, names: frozenset[str]) -> bool:
    """Whether a loop of the kernel calls the function, or it is called by another function, of which that is not
    asked."""
    calls = _calls(tree, body, name)
    return any(loops_around(tree, c) for c in calls) if calls else len(names) > 1
