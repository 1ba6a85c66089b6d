# SPDX-License-Identifier: Apache-2.0
"""Elements of rows that a table of pointers leads to, another row for each lane: `row[i % count][k]`, or
`float *own = row[i]; own[k]`."""

from __future__ import annotations

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.syntax.tree import SourceTree, walk
from warplens_tools.cuda.values.constants import UNKNOWN_DIM3, Dim3
from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import Form
from warplens_tools.cuda.values.kernel_tree import kernel_tree
from warplens_tools.text import Span

#: Lanes of a warp, and rows from which most of them have one of their own.
_LANES, _MOST = 32, 16
#: What stands for a number that only a launch tells, and for the block's threads where none does.
_LARGE, _BLOCK = 1_000_003, (256, 1, 1)
_DEPTH = 4


class PointerRow(msgspec.Struct, frozen=True):
    """One access of a row of the lane's own."""

    span: Span
    #: The table's, and the index of the row, as written.
    table: str
    chosen: str


def pointer_rows(tree: SourceTree, kernel: Kernel, block: Dim3 = UNKNOWN_DIM3) -> tuple[PointerRow, ...]:
    """Those of the kernel's own text, in text order."""
    tables = frozenset(p.name for p in kernel.parameters if p.type.count("*") > 1)
    expanded = kernel_tree(tree, kernel) if tables else None
    if expanded is None:
        return ()
    return tuple(_Reader(FormReader(expanded, block), tables, block).every())


class _Reader:
    def __init__(self, forms: FormReader, tables: frozenset[str], block: Dim3) -> None:
        self.forms, self.tree, self.tables = forms, forms.tree, tables
        x, y, z = block
        self.block = _BLOCK if x is None or y is None or z is None else (x, y, z)

    def every(self) -> list[PointerRow]:
        """See `pointer_rows`."""
        body = self.forms.kernel.function.body
        made = (n for n in walk(body) if n.type == "init_declarator")
        rows = {self.tree.code_of(_named(n)): n.child_by_field_name("value") for n in made}
        found = []
        for node in walk(body):
            base = _argument(node) if node.type == "subscript_expression" else None
            if base is not None and base.type == "identifier":
                base = rows.get(self.tree.code_of(base))
            table = self._chosen(base) if base is not None else None
            if table is not None:
                found.append(PointerRow(self.tree.span(node), *table))
        return found

    def _chosen(self, row: Node) -> tuple[str, str] | None:
        """Table and index of `table[i]`, where most lanes of a warp have an `i` of their own."""
        table = _argument(row) if row.type == "subscript_expression" else None
        listed = row.child_by_field_name("indices")
        if table is None or listed is None or self.tree.code_of(table) not in self.tables:
            return None
        index = listed.named_children[0] if listed.named_children else None
        form = self.forms.form(index)
        if index is None or form is None or self._values(form) < _MOST:
            return None
        return self.tree.code_of(table), self.tree.text_of(index)

    def _values(self, form: Form) -> int:
        """How many values the lanes of a warp have; 0 where that is not known."""
        plain = [s for s in form.symbols if s.kind != "derived"]
        given = {s.name: _LARGE if s.kind in ("parameter", "grid size") else 0 for s in plain}
        given |= dict(zip(("blockDim.x", "blockDim.y", "blockDim.z"), self.block, strict=True))
        x, y, _ = self.block
        lanes = ((n % x, n // x % y, n // (x * y)) for n in range(_LANES))
        found = {
            form.evaluate({**given, "threadIdx.x": a, "threadIdx.y": b, "threadIdx.z": c})
            for a, b, c in lanes
        }
        return 0 if None in found else len(found)


def _argument(node: Node) -> Node | None:
    """What is indexed, past parentheses."""
    found = node.child_by_field_name("argument")
    for _ in range(_DEPTH):
        if found is None or found.type != "parenthesized_expression" or not found.named_children:
            break
        found = found.named_children[0]
    return found


def _named(declarator: Node) -> Node:
    """The name that a declarator declares."""
    found = declarator
    while (inner := found.child_by_field_name("declarator")) is not None:
        found = inner
    return found
