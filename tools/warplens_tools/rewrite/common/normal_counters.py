# SPDX-License-Identifier: Apache-2.0
"""Counters that are declared before their loops, as in C of old, declared by them: `int k; for (k = 0; …)`."""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, holds, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.text import SourceText, Span, TextEdit


def declared_by_loops(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that make every counter of the kernel, which nothing else uses, its loops' own."""
    low = text.offset(kernel.body.line, kernel.body.column)
    high = text.offset(kernel.body.end_line, kernel.body.end_column)
    function = file.function_at(low, high)
    inside = [n for n in walk(function) if low <= n.start_byte and n.end_byte <= high] if function else []
    edits: list[TextEdit] = []
    for declaration in (n for n in inside if n.type == "declaration"):
        declarators = declaration.children_by_field_name("declarator")
        written = (
            file.code_of(declaration)[: declarators[0].start_byte - declaration.start_byte].strip()
            if declarators
            else ""
        )
        if (
            integer_type(written) is None
            or declaration.parent is None
            or declaration.parent.type != "compound_statement"
        ):
            continue
        starts = {d.id: _starts(file, inside, d) for d in declarators}
        if not any(starts.values()):
            continue
        edits += [TextEdit(_before(file, at), f"{written} ") for found in starts.values() for at in found]
        kept = [text.slice(file.span(d)) for d in declarators if not starts[d.id]]
        edits.append(_without(text, file, declaration, written, kept))
    return tuple(edits)


def _starts(file: SourceTree, inside: list[Node], declarator: Node) -> list[Node]:
    """`k = 0` of every loop over a variable; none where anything else uses it."""
    plain = declarator
    if declarator.type == "init_declarator":
        value, named = (declarator.child_by_field_name(f) for f in ("value", "declarator"))
        # a first value that no loop starts from is read by nobody
        plain = named if value is not None and value.type == "number_literal" and named is not None else plain
    if plain.type != "identifier":
        return []
    name = file.code_of(plain)
    uses = [n for n in inside if n.type == "identifier" and file.code_of(n) == name and n.id != plain.id]
    loops = [n for n in inside if n.type == "for_statement" and _start(file, n, name) is not None]
    outer = [n for n in loops if not any(o.id != n.id and holds(o, n) for o in loops)]
    if len(outer) != len(loops) or any(not any(holds(o, u) for o in outer) for u in uses):
        return []
    if any(_is_declared(u) for u in uses):
        return []
    return [start for n in outer if (start := _start(file, n, name)) is not None]


def _start(file: SourceTree, loop: Node, name: str) -> Node | None:
    initial = loop.child_by_field_name("initializer")
    if initial is None or initial.type != "assignment_expression":
        return None
    left, right = initial.child_by_field_name("left"), initial.child_by_field_name("right")
    operator = initial.child_by_field_name("operator")
    if left is None or right is None or operator is None or operator.type != "=":
        return None
    again = any(n.type == "identifier" and file.code_of(n) == name for n in walk(right))
    return initial if file.code_of(left) == name and not again else None


def _is_declared(node: Node) -> bool:
    """Whether a name is declared once more."""
    parent = node.parent
    if parent is None:
        return False
    if parent.type in ("declaration", "parameter_declaration"):
        return True
    declared = parent.child_by_field_name("declarator") if parent.type == "init_declarator" else None
    return declared is not None and declared.id == node.id


def _before(file: SourceTree, node: Node) -> Span:
    span = file.span(node)
    return Span(span.line, span.column, span.line, span.column)


def _without(
    text: SourceText, file: SourceTree, declaration: Node, written: str, kept: list[str]
) -> TextEdit:
    """The declaration of what is left; its whole line goes where that is nothing."""
    span = file.span(declaration)
    if kept:
        return TextEdit(span, f"{written} {', '.join(kept)};")
    return TextEdit(text.with_line(span), "")
