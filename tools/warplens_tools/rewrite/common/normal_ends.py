# SPDX-License-Identifier: Apache-2.0
"""Loops that end where a place beside their counter does, as rewrites read them: `i + lag < n` as `i < n - lag`."""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.comparisons import FLIPPED
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.common.normal_bounds import SIGNED, WORD, BoundReader
from warplens_tools.text import SourceText, TextEdit

_OTHER = {"+": "-", "-": "+"}


def counters_alone(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that leave the counter of one loop alone on its side of the condition; () where there are none."""
    reader = BoundReader(text, file, kernel)
    for loop in walk(reader.body) if reader.body is not None else ():
        edits = _alone(reader, loop) if loop.type == "for_statement" else ()
        if edits:
            return edits
    return ()


def _alone(reader: BoundReader, loop: Node) -> tuple[TextEdit, ...]:
    initial, condition = loop.child_by_field_name("initializer"), loop.child_by_field_name("condition")
    if initial is None or condition is None or initial.type != "declaration":
        return ()
    declarators = initial.children_by_field_name("declarator")
    written = reader.code(initial)[: declarators[0].start_byte - initial.start_byte] if declarators else ""
    if (
        len(declarators) != 1
        or not SIGNED.fullmatch(written.strip())
        or condition.type != "binary_expression"
    ):
        return ()
    name = reader.code(declarators[0].child_by_field_name("declarator"))
    left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    kind = reader.code(condition.child_by_field_name("operator"))
    if right is not None and name in reader.words(right):
        left, right, kind = right, left, FLIPPED.get(kind, "")
    if left is None or right is None or kind not in ("<", "<=") or left.type != "binary_expression":
        return ()
    first, second = left.child_by_field_name("left"), left.child_by_field_name("right")
    sign = reader.code(left.child_by_field_name("operator"))
    if sign == "+" and reader.code(second) == name:
        first, second = second, first
    if sign not in _OTHER or first is None or second is None or reader.code(first) != name:
        return ()
    if second.type not in ("identifier", "number_literal") or not _is_still(
        reader, loop, [second, right], name
    ):
        return ()
    limit = reader.text.slice(reader.file.span(right))
    return (
        TextEdit(reader.file.span(condition), f"{name} {kind} {limit} {_OTHER[sign]} {reader.code(second)}"),
    )


def _is_still(reader: BoundReader, loop: Node, nodes: list[Node], counter: str) -> bool:
    """Whether all names are of signed integers that the loop does not change, in sums that bind no less than one."""
    integers = {p.name for p in reader.kernel.parameters if not p.pointer and SIGNED.fullmatch(p.type)}
    for declaration in reader.declarations():
        integers |= {
            reader.code(one.child_by_field_name("declarator"))
            for one in declaration.children_by_field_name("declarator")
            if one.type == "init_declarator"
        }
    words = {w for n in nodes for w in WORD.findall(reader.code(n))}
    plain = all(n.type in ("identifier", "number_literal", "binary_expression") for n in nodes)
    inner = [m for n in nodes for m in walk(n) if m.type == "binary_expression"]
    operators = {reader.code(m.child_by_field_name("operator")) for m in inner}
    return (
        plain
        and operators <= {"+", "-", "*", "/"}
        and counter not in words
        and words <= integers
        and not any(reader.changes(loop, w) for w in words)
    )
