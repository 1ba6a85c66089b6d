# SPDX-License-Identifier: Apache-2.0
"""Limits that a block finds in memory, in the form that rewrites read: in a variable of their own.

`if (t >= tokens[blockIdx.z] || f >= F) return;` becomes `const int limit = tokens[blockIdx.z];` and a test by that.
"""

from __future__ import annotations

import itertools
import re

from tree_sitter import Node

from warplens_tools.cuda.facts.read_only import only_read
from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, holds, walk
from warplens_tools.rewrite.common.normal_bounds import SIGNED, BoundReader
from warplens_tools.text import SourceText, Span, TextEdit

_COMPARED = frozenset({"<", "<=", ">", ">="})
#: The thread's own number, a variable that may change, and an element of an element.
_MOVES = re.compile(r"threadIdx|[\[(]|->|\+\+|--")


def limits_named(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edits that give one limit of the kernel's guards, which memory says, a name; () where there is none."""
    reader = BoundReader(text, file, kernel)
    for guard in reader.body.named_children if reader.body is not None else ():
        if guard.type in ("declaration", "comment"):
            continue
        if guard.type != "if_statement":
            break
        edits = _named(reader, guard)
        if edits:
            return edits
    return ()


def _named(reader: BoundReader, guard: Node) -> tuple[TextEdit, ...]:
    condition = guard.child_by_field_name("condition")
    for node in walk(condition) if condition is not None else ():
        if node.type != "subscript_expression" or not _is_side(node) or not _is_for_the_block(reader, node):
            continue
        index = _index(node)
        words = reader.words(index) if index is not None else frozenset[str]()
        others = (n for n in _sides(condition) if not holds(n, node))
        # an index that the same condition keeps inside is not for the statement before it
        if any(words & reader.words(side) for side in others):
            continue
        name, margin, span = reader.free("limit"), reader.margin(guard), reader.file.span(guard)
        at = Span(span.line, span.column, span.line, span.column)
        new = f"const int {name} = {reader.text.slice(reader.file.span(node))};{reader.text.newline}{margin}"
        return (TextEdit(at, new), TextEdit(reader.file.span(node), name))
    return ()


def _is_side(node: Node) -> bool:
    """Whether a node is one side of a comparison."""
    outer = node.parent
    operator = outer.child_by_field_name("operator") if outer is not None else None
    return operator is not None and operator.type in _COMPARED


def _is_for_the_block(reader: BoundReader, node: Node) -> bool:
    """Whether an element is an `int` that nothing in the kernel writes, at a place that is the block's."""
    array, index = reader.code(node.child_by_field_name("argument")), _index(node)
    parameter = next((p for p in reader.kernel.parameters if p.name == array and p.pointer), None)
    if parameter is None or index is None or not SIGNED.fullmatch(parameter.element_type):
        return False
    if array not in only_read(reader.file, reader.kernel) or _MOVES.search(reader.code(index)):
        return False
    return all(_is_of_block(reader, word) for word in reader.words(index))


def _is_of_block(reader: BoundReader, word: str, deep: int = 0) -> bool:
    """Whether a name has one value for all threads of a block: a parameter, or made of the block's number alone."""
    if word in ("blockIdx", "gridDim", "blockDim", "x", "y", "z") or word.isupper():
        return True
    if any(p.name == word and not p.pointer for p in reader.kernel.parameters):
        return reader.body is not None and not reader.changes(reader.body, word)
    for node in reader.declarations():
        for one in node.children_by_field_name("declarator"):
            value = one.child_by_field_name("value")
            if reader.code(one.child_by_field_name("declarator")) != word or value is None:
                continue
            still = reader.body is not None and not reader.changes(reader.body, word)
            plain = still and deep < 3 and not _MOVES.search(reader.code(value))
            return plain and all(_is_of_block(reader, w, deep + 1) for w in reader.words(value))
    return False


def _index(node: Node) -> Node | None:
    listed = node.child_by_field_name("indices")
    return listed.named_children[0] if listed is not None and listed.named_child_count == 1 else None


def _sides(condition: Node | None) -> list[Node]:
    """Both sides of every comparison of a condition."""
    found = [n for n in walk(condition) if n.type == "binary_expression"] if condition is not None else []
    compared = [
        n for n in found if (o := n.child_by_field_name("operator")) is not None and o.type in _COMPARED
    ]
    sides = itertools.chain.from_iterable(
        (n.child_by_field_name("left"), n.child_by_field_name("right")) for n in compared
    )
    return [n for n in sides if n is not None]
