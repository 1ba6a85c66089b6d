# SPDX-License-Identifier: Apache-2.0
"""Reduction trees over several shared arrays, in the form that rewrites read: a tree for each array.

`for (s = …) { if (t < s) { a[t] += a[t + s]; b[t] += b[t + s]; } __syncthreads(); }` becomes two loops.
"""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.rewrite.common.normal_bounds import BoundReader, squeezed
from warplens_tools.text import SourceText, Span, TextEdit

_BARRIER = "__syncthreads();"


def trees_apart(text: SourceText, file: SourceTree, kernel: Kernel) -> tuple[TextEdit, ...]:
    """The edit that takes one loop over several arrays apart; () where there is none."""
    reader = BoundReader(text, file, kernel)
    shared = {a.name for a in kernel.arrays if a.space == "shared" and a.extents}
    for loop in walk(reader.body) if reader.body is not None else ():
        taken = _joins(reader, loop, shared) if loop.type == "for_statement" else None
        if taken is not None:
            return (TextEdit(file.span(loop), _apart(reader, loop, *taken)),)
    return ()


def _joins(reader: BoundReader, loop: Node, shared: set[str]) -> tuple[Node, list[Node]] | None:
    """What a loop does under its condition, and the statements there, each for an array of its own."""
    body = _inside(loop.child_by_field_name("body"))
    if loop.child_by_field_name("initializer") is None or len(body) != 2 or body[0].type != "if_statement":
        return None
    done = body[0].child_by_field_name("consequence")
    joins = _inside(done)
    if done is None or body[0].child_by_field_name("alternative") is not None or len(joins) < 2:
        return None
    if squeezed(reader.code(body[1])) != _BARRIER:
        return None
    arrays = [_arrays(reader, join) for join in joins]
    apart = all(len(a) == 1 and a <= shared for a in arrays) and len(set().union(*arrays)) == len(joins)
    return (done, joins) if apart else None


def _arrays(reader: BoundReader, join: Node) -> set[str]:
    """The arrays of a statement that sets elements of arrays and nothing else; nothing for any other statement."""
    if join.type not in ("expression_statement", "if_statement"):
        return set()
    found = set[str]()
    for node in walk(join):
        if node.type in ("update_expression", "pointer_expression", "declaration"):
            return set()
        if node.type == "field_expression" and squeezed(reader.code(node)) != "threadIdx.x":
            return set()
        if node.type == "subscript_expression":
            found.add(reader.code(node.child_by_field_name("argument")))
        left = node.child_by_field_name("left") if node.type == "assignment_expression" else None
        if left is not None and left.type != "subscript_expression":
            return set()
    return found


def _inside(node: Node | None) -> list[Node]:
    """The statements of a block, or the one that stands for it."""
    if node is None:
        return []
    return [
        n
        for n in (node.named_children if node.type == "compound_statement" else [node])
        if n.type != "comment"
    ]


def _apart(reader: BoundReader, loop: Node, done: Node, joins: list[Node]) -> str:
    whole, inner, text = reader.file.span(loop), reader.file.span(done), reader.text
    margin = text.margin(whole.line)
    before = text.slice(Span(whole.line, whole.column, inner.line, inner.column))
    behind = text.slice(Span(inner.end_line, inner.end_column, whole.end_line, whole.end_column))
    each = (text.slice(reader.file.span(join)) for join in joins)
    return f"{text.newline}{margin}".join(f"{before}{join}{behind}" for join in each)
