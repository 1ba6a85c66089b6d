"""Divisions and remainders of a kernel whose divisor is no constant."""

from __future__ import annotations

import msgspec

from warplens_tools.source.expanded import kernel_tree
from warplens_tools.source.model import Kernel
from warplens_tools.source.tree import SourceTree
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


def runtime_divisions(tree: SourceTree, kernel: Kernel) -> tuple[Division, ...]:
    """Divisions in the kernel's own text whose divisor does not follow from constants, in text order."""
    expanded = kernel_tree(tree, kernel)
    if expanded is None:
        return ()
    found: list[Division] = []
    for node in expanded.tree.captures(_PATTERN, expanded.function.body).get("operation", []):
        divisor = node.child_by_field_name("right")
        if divisor is None:
            continue
        code = expanded.tree.code_of(divisor)
        if expanded.constants.value(code, divisor.start_byte) is None:
            span = expanded.tree.span(node)
            found.append(Division(span, expanded.tree.text_of(divisor), expanded.tree.span(divisor).line))
    return tuple(found)
