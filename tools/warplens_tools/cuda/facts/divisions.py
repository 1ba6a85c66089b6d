# SPDX-License-Identifier: Apache-2.0
"""Divisions and remainders whose divisor is no constant: of a kernel, and of the functions it may call."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.invariance import is_invariant
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.callees import called_names, own_name
from warplens_tools.cuda.syntax.functions import functions_of
from warplens_tools.cuda.syntax.tree import LOOPS, SourceTree, walk
from warplens_tools.cuda.values.arithmetic_types import TypeReader
from warplens_tools.cuda.values.constants import Constants, constants_of
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.cuda.values.pointers import PointerReader
from warplens_tools.text import Span

_PATTERN = """
(binary_expression operator: ["/" "%"] right: (_) @divisor) @operation
(assignment_expression operator: ["/=" "%="] right: (_) @divisor) @operation
"""


class Division(msgspec.Struct, frozen=True):
    """One `a / b`, `a % b`, `a /= b` or `a %= b`; whether on integers the text does not always tell."""

    span: Span
    divisor: str
    #: The line its operator and divisor stand on, which is where the compiler puts its instructions.
    line: int
    #: The function it stands in, where that is not the kernel.
    function: str = ""
    #: The text tells that both operands are integers.
    whole: bool = False


def runtime_divisions(tree: SourceTree, kernel: Kernel) -> tuple[Division, ...]:
    """Divisions in the kernel's own text whose divisor does not follow from constants, in text order."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    forms = FormReader(expanded)
    types = TypeReader(forms, PointerReader(kernel, forms))
    return tuple(_divisions(expanded.tree, expanded.function.body, expanded.constants, types))


def helper_divisions(tree: SourceTree) -> tuple[Division, ...]:
    """Such divisions in the file's functions that are no kernels, in text order."""
    return tree.remembered("helper divisions", lambda: tuple(_helper_divisions(tree)))


def _helper_divisions(tree: SourceTree) -> Iterator[Division]:
    for function in functions_of(tree):
        if not function.is_kernel:
            name = own_name(tree, function)
            for division in _divisions(tree, function.body, constants_of(tree)):
                yield msgspec.structs.replace(division, function=name)


def called_divisions(tree: SourceTree, code: str) -> tuple[Division, ...]:
    """The divisions of the functions that a piece of code names, and of those that these name."""
    named = called_names(tree, code)
    return tuple(d for d in helper_divisions(tree) if d.function in named)


def _divisions(
    tree: SourceTree, body: Node, constants: Constants, types: TypeReader | None = None
) -> Iterator[Division]:
    for node in tree.captures(_PATTERN, body).get("operation", []):
        divisor = node.child_by_field_name("right")
        if types is not None and _is_floating(types, node):
            continue
        if divisor is not None and not _is_compile_time(tree, divisor, constants):
            whole = types is not None and _is_whole(types, node)
            yield Division(tree.span(node), tree.text_of(divisor), tree.span(divisor).line, whole=whole)


def _is_compile_time(tree: SourceTree, divisor: Node, constants: Constants) -> bool:
    """Whether a divisor has a value that the text gives, or is made of names that are constexpr, whatever they are."""
    if constants.value(tree.code_of(divisor), divisor.start_byte) is not None:
        return True
    if any(n.type in {"call_expression", "field_expression", "subscript_expression"} for n in walk(divisor)):
        return False
    names = [n for n in walk(divisor) if n.type == "identifier"]
    found = [constants.binding(tree.text_of(n), n.start_byte) for n in names]
    return bool(found) and all(b is not None and b.kind == "constexpr" for b in found)


def _is_floating(types: TypeReader, node: Node) -> bool:
    """Whether an operand is known to be floating point, which makes the division so."""
    return any(
        types.type(node.child_by_field_name(side)) in ("float", "double") for side in ("left", "right")
    )


def _is_whole(types: TypeReader, node: Node) -> bool:
    """Whether both operands are known to be integers."""
    return all(types.type(node.child_by_field_name(side)) == "int" for side in ("left", "right"))


def invariant_divisions(tree: SourceTree, kernel: Kernel) -> tuple[Division, ...]:
    """Floating-point divisions in loops of the kernel by a name or expression that the innermost loop leaves alone."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    forms = FormReader(expanded)
    types = TypeReader(forms, PointerReader(kernel, forms))
    found = []
    for node in expanded.tree.captures(_PATTERN, expanded.function.body).get("operation", []):
        divisor, loop = node.child_by_field_name("right"), _loop_around(node)
        sign = node.child_by_field_name("operator")
        if divisor is None or loop is None or sign is None or sign.type not in ("/", "/="):
            continue
        names = [n for n in walk(divisor) if n.type == "identifier"]
        if names and _is_floating(types, node) and is_invariant(expanded, divisor, loop):
            span = expanded.tree.span
            found.append(Division(span(node), expanded.tree.text_of(divisor), span(divisor).line))
    return tuple(found)


def _loop_around(node: Node) -> Node | None:
    current = node.parent
    while current is not None and current.type not in LOOPS:
        current = None if current.type == "function_definition" else current.parent
    return current
