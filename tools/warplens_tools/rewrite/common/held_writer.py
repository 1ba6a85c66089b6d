# SPDX-License-Identifier: Apache-2.0
"""Writes passes over a row whose elements are kept in registers between them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.held_rows import Row, reads
from warplens_tools.rewrite.common.insertion import insert_before
from warplens_tools.rewrite.common.passes import Group, Pass
from warplens_tools.rewrite.common.reading import View, field, statements, stores, substituted
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

_SIMPLE = re.compile(r"[\w.]+(?:\[[\w.]*\])?|\w+\([^()]*\)|\([^()]*\)")
_NONE: Mapping[int, list[str]] = {}


class HeldWriter:
    """The passes of one group, with rows kept."""

    def __init__(
        self,
        view: View,
        style: Style,
        group: Group,
        rows: tuple[Row, ...],
        held: str,
        counter: str,
        names: dict[str, str],
    ) -> None:
        """`names` are those that arrays of other groups have; new ones join them."""
        self.view, self.style, self.group, self.rows = view, style, group, rows
        self.held, self.counter = held, counter
        bases = [row.base for row in rows]
        self.arrays: list[str] = []
        for number, row in enumerate(rows):
            wanted = f"{row.base}_held" if "_" in row.base else f"{row.base}Held"
            key = f"{row.base} {row.type} {bases[:number].count(row.base)} {group.span[0].start_byte}"
            self.arrays.append(names.setdefault(key, style.local(wanted)))

    def edits(self) -> list[TextEdit]:
        """One for each pass that touches a row that is kept."""
        touched = [k for k in range(len(self.group.passes)) if any(self.is_in(r, k) for r in self.rows)]
        return [edit for k in touched for edit in self._pass(k)]

    def is_in(self, row: Row, number: int) -> bool:
        """Whether a pass has a row that is kept."""
        return row.first <= number <= row.last and bool(row.uses[number])

    def _pass(self, number: int) -> list[TextEdit]:
        one, view = self.group.passes[number], self.view
        first, step = as_operand(view.written(one.first), "+"), as_operand(view.written(one.step), "")
        pairs = zip(self.rows, self.arrays, strict=True)
        declared = [self._array(row, name) for row, name in pairs if row.first == number]
        edits = list[TextEdit]()
        if one.top.id != one.loop.id and declared:
            above = insert_before(view.tree, one.top, "\n".join(declared))
            if above is None:
                raise Refused("there is no place to declare what is kept")
            edits, declared = [above], []
        lines = [
            *declared,
            "#pragma unroll",
            f"for (int {self.counter} = 0; {self.counter} < {self.held}; ++{self.counter}) {{",
            *map(indented, self._each_kept(number, f"{first} + {self.counter} * {step}")),
            "}",
        ]
        rest = substituted(view, one.loop, [(one.first, self._behind(first, step))])
        margin = self.view.margin(one.loop)
        code = [put_at(self.style, margin, line) for line in "\n".join(lines).split("\n")]
        return [
            *edits,
            TextEdit(view.span(one.loop), view.text.newline.join([*code, margin + rest]).lstrip()),
        ]

    def _array(self, row: Row, name: str) -> str:
        """The declaration of what is kept of a row."""
        return f"{row.type} {name}[{self.held}];"

    def _behind(self, first: str, step: str) -> str:
        """Where a thread goes on behind what it keeps."""
        return f"{first} + {self.held} * {step}"

    def _each_kept(self, number: int, place: str) -> list[str]:
        """What is done for one place of those that are kept."""
        one = self.group.passes[number]
        test = f"if ({one.name} < {self.view.written(one.limit)}) {{"
        return [f"{one.type} {one.name} = {place};", test, indented("\n".join(self._body(number))), "}"]

    def _body(self, number: int) -> list[str]:
        """The statements for an element that is kept."""
        one, pairs = self.group.passes[number], list[tuple[Node, str]]()
        loads: dict[int, list[str]] = {}
        after: list[str] = []
        rows = [(r, a) for r, a in zip(self.rows, self.arrays, strict=True) if self.is_in(r, number)]
        for row, array in rows:
            pairs += [(e, f"{array}[{self.counter}]") for e in row.uses[number]]
        for row, array in rows:
            kept = f"{array}[{self.counter}]"
            direct = self.direct(row, number)
            if direct is not None:
                pairs = self._stored(direct, kept, pairs)
            elif self.writes_back(row, number):
                target = stores(self.view, one.body)
                own = next(e for e in target if e.id in {u.id for u in row.uses[number]})
                after.append(f"{self.view.written(own)} = {kept};")
            if number == row.first and not self.defines(row, number):
                element = row.uses[number][0]
                at = self._top(one, element)
                loads.setdefault(at.id, []).append(f"{kept} = {self.view.written(element)};")
        return [*self._work(one, pairs, loads), *after]

    def _work(
        self, one: Pass, pairs: list[tuple[Node, str]], loads: Mapping[int, list[str]] = _NONE
    ) -> list[str]:
        """The pass's statements for one element, each behind its loads, with the comments between them."""
        lines = list[str]()
        behind = self.view.start(one.body) + (one.body.type == "compound_statement")
        for node in statements(one.body):
            self._comment(lines, self.view.text.text[behind : self.view.start(node)])
            behind = self.view.end(node)
            lines += loads.get(node.id, [])
            inside = [(n, t) for n, t in pairs if holds(node, n)]
            lines.append(self.style.code(substituted(self.view, node, inside)))
        self._comment(lines, self.view.text.text[behind : self.view.end(one.body)].rstrip().removesuffix("}"))
        return lines

    def _comment(self, lines: list[str], between: str) -> None:
        """Add the comments between two statements: behind the first on its line, else on lines of their own."""
        beside, _, below = between.partition("\n")
        if beside.strip() and lines:
            lines[-1] += f"  {beside.strip()}"
        elif beside.strip():
            lines.append(beside.strip())
        lines += [line.strip() for line in below.split("\n") if line.strip()]

    def _stored(self, store: Node, kept: str, pairs: list[tuple[Node, str]]) -> list[tuple[Node, str]]:
        """`a[i] = kept / b;` for `a[i] /= b;`, a plain `a[i] = b;` as it is."""
        whole = store.parent
        operator, value = (
            (field(whole, name) for name in ("operator", "right")) if whole is not None else (store, store)
        )
        others = [(n, t) for n, t in pairs if n.id != store.id]
        if whole is None or operator.type == "=":
            return others
        inside = [(n, t) for n, t in others if holds(value, n)]
        written = as_operand(substituted(self.view, value, inside), "")
        text = f"{self.view.written(store)} = {kept} {operator.type.removesuffix('=')} {written}"
        return [*((n, t) for n, t in others if not holds(whole, n)), (whole, text)]

    # what is stored when

    def _top(self, one: Pass, node: Node) -> Node:
        return next(s for s in statements(one.body) if holds(s, node))

    def _plain_stores(self, row: Row, number: int) -> list[Node]:
        """Stores that are statements of their own, in every iteration."""
        tops = {s.id for s in statements(self.group.passes[number].body)}
        found = []
        for element in row.uses[number]:
            whole = element.parent
            if (
                whole is None
                or whole.type != "assignment_expression"
                or field(whole, "left").id != element.id
            ):
                continue
            if (
                whole.parent is not None
                and whole.parent.id in tops
                and whole.parent.type == "expression_statement"
            ):
                found.append(element)
        return found

    def _all_stores(self, row: Row, number: int) -> list[Node]:
        own = {e.id for e in row.uses[number]}
        return [e for e in stores(self.view, self.group.passes[number].body) if e.id in own]

    def direct(self, row: Row, number: int) -> Node | None:
        """The one store of the last pass that reads the row, where nothing reads it behind."""
        plain = self._plain_stores(row, number)
        if number != row.last or len(plain) != 1 or len(self._all_stores(row, number)) != 1:
            return None
        whole = plain[0].parent
        behind = [e for e in row.uses[number] if whole is not None and e.start_byte >= whole.end_byte]
        return None if behind else plain[0]

    def writes_back(self, row: Row, number: int) -> bool:
        """Whether what a pass makes of the row goes to memory behind it."""
        if not self._all_stores(row, number):
            return False
        return not any(
            self._plain_stores(row, later) and not self._is_left(number, later)
            for later in range(number + 1, len(self.group.passes))
        )

    def _is_left(self, number: int, later: int) -> bool:
        begin = self.group.passes[number].loop.end_byte
        end = self.group.passes[later].loop.start_byte
        between = (n for s in self.group.span for n in walk(s) if begin <= n.start_byte < end)
        return any(n.type in ("return_statement", "break_statement", "continue_statement") for n in between)

    def defines(self, row: Row, number: int) -> bool:
        """Whether a pass stores the element before it reads it."""
        element = row.uses[number][0]
        whole = element.parent
        if element.id not in {e.id for e in self._plain_stores(row, number)} or whole is None:
            return False
        inside = any(holds(field(whole, "right"), e) for e in row.uses[number])
        return not reads(element) and not inside


def as_operand(written: str, beside: str) -> str:
    """An expression as an operand of `+` ("+"), or of `*` and all that bind less ("")."""
    pattern = r"[\w.\s%]+" if beside else _SIMPLE.pattern
    return written if re.fullmatch(pattern, written) else f"({written})"


def put_at(style: Style, margin: str, line: str) -> str:
    """A line that is written with two spaces a level, in the file's indentation."""
    bare = line.lstrip(" ")
    return f"{margin}{style.step * ((len(line) - len(bare)) // 2)}{bare}" if bare else ""
