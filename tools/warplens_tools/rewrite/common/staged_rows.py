# SPDX-License-Identifier: Apache-2.0
"""What neighbouring outputs of a thread read of the same rows: loaded once before their loop, in vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.facts.aliasing import same_buffer
from warplens_tools.cuda.syntax.tree import LOOPS, is_assigned, walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.cuda.values import forms
from warplens_tools.cuda.values.forms import Form
from warplens_tools.rewrite.base import Refused, RewriteResult
from warplens_tools.rewrite.common.counting import counting
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.insertion import start_with_pragmas
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    assigned,
    field,
    operator_of,
    renamed,
    statements,
    stores,
)
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

_BRANCHES = LOOPS | {"if_statement", "conditional_expression", "switch_statement"}
#: Rows longer than this many elements beyond a thread's own would not stay in registers.
_MOST_BESIDE = 16
_MOST_FIELDS = 4
_CAVEAT = "undefined results if two of the buffers overlap"
_LOAD = """\
// `kCount` elements from `from` on, those from the `kLead`th in vectors where they are aligned.
template <int kLead, int kCount, typename T>
__device__ __forceinline__ void {name}(const T* from, T (&row)[kCount]) {{
  constexpr int kWide = {widest} / sizeof(T), kVectors = (kCount - kLead) / kWide;
  const T* centre = from + kLead;
  #pragma unroll
  for (int i = 0; i < kCount; ++i) {{
    if (i < kLead || i >= kLead + kVectors * kWide) row[i] = from[i];
  }}
  if (reinterpret_cast<size_t>(centre) % {widest} == 0) {{
    #pragma unroll
    for (int q = 0; q < kVectors; ++q) {{
      alignas({widest}) T part[kWide];
      *reinterpret_cast<{vector}*>(part) = reinterpret_cast<const {vector}*>(centre)[q];
      #pragma unroll
      for (int e = 0; e < kWide; ++e) row[kLead + q * kWide + e] = part[e];
    }}
  }} else {{
    #pragma unroll
    for (int e = 0; e < kVectors * kWide; ++e) row[kLead + e] = centre[e];
  }}
}}
"""
_STORE = """\
// All elements of a row, in vectors where they are aligned.
template <int kCount, typename T>
__device__ __forceinline__ void {name}(T* to, const T (&row)[kCount]) {{
  constexpr int kWide = {widest} / sizeof(T), kVectors = kCount / kWide;
  if (kCount % kWide == 0 && reinterpret_cast<size_t>(to) % {widest} == 0) {{
    #pragma unroll
    for (int q = 0; q < kVectors; ++q) {{
      alignas({widest}) T part[kWide];
      #pragma unroll
      for (int e = 0; e < kWide; ++e) part[e] = row[q * kWide + e];
      reinterpret_cast<{vector}*>(to)[q] = *reinterpret_cast<{vector}*>(part);
    }}
  }} else {{
    #pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = row[e];
  }}
}}
"""
_VECTORS = {2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}


class _Row(msgspec.Struct, frozen=True):
    """Elements of one array that lie beside each other, however far, and go along with the outputs."""

    array: str
    type: str
    #: From one output's to the next one's.
    fields: int
    #: Each element with its offset.
    places: tuple[tuple[Node, int], ...]
    stored: bool

    @property
    def least(self) -> int:
        return min(offset for _, offset in self.places)

    @property
    def beside(self) -> int:
        """How many elements lie between the first and the last of an output's."""
        return max(offset for _, offset in self.places) - self.least


class StagedRows:
    """A loop over neighbouring outputs of a thread, and the rows that they read and write."""

    def __init__(self, view: View, loop: Node) -> None:
        self.view, self.loop = view, loop
        counted = counting(view.expanded, loop)
        trips = view.forms.loop(loop).trips
        if counted is None or trips is None or not 2 <= trips <= 16 or counted.step != "1":
            raise Refused("the outputs of a thread are not counted")
        self.counter, self.count, self.symbol = counted.variable, trips, view.forms.loop(loop).counter
        self.bound = view.written(counted.bounds[0]) if len(counted.bounds) == 1 else str(trips)
        self.body = list(_flat(field(loop, "body")))
        if any(n.type in JUMPS and not _is_inner(n, loop) for b in self.body for n in walk(b)):
            raise Refused("some outputs are left early")
        self.declared = self._declarations()
        self.rows = self._rows()

    def _declarations(self) -> list[Declared]:
        """What the loop declares before it does anything else."""
        found = list[Declared]()
        for node in self.body:
            every = plainly_declared_in(self.view, node)
            if not every:
                break
            found += every
        changed = {name for n in self.body for name, _ in assigned(n, self.view)}
        return [d for d in found if d.name not in changed]

    # what is there

    def _rows(self) -> list[_Row]:
        view, found = self.view, dict[tuple[str, Form], _Row]()
        written = {e.id for n in self.body for e in stores(view, n)}
        arrays = {view.array(e) for n in self.body for e in view.elements(n) if e.id in written}
        shared = same_buffer(view.file, view.model, view.kernel)
        for element in (e for n in self.body for e in view.elements(n)):
            stored = element.id in written
            read = self._element(element)
            same = shared if view.array(element) in shared else {view.array(element)}
            if read is None or (stored and not _is_plain_store(element)):
                continue
            if len(arrays & same) > (1 if stored else 0):
                continue
            kind, fields, base, offset = read
            key = (view.array(element), base)
            one = _Row(view.array(element), kind, fields, ((element, offset),), stored)
            if key in found and (found[key].fields, found[key].stored) == (fields, stored):
                one = msgspec.structs.replace(one, places=(*found[key].places, (element, offset)))
            elif key in found:
                continue
            found[key] = one
        return [row for r in found.values() if (row := self._usable(r)) is not None]

    def _element(self, node: Node) -> tuple[str, int, Form, int] | None:
        """Type, elements from output to output, the row, and the offset in it; None for what stays or is
        walked by a loop.
        """
        view, pointer = self.view, self.view.place(node)
        if node.type != "subscript_expression" or pointer is None or pointer.space != "global":
            return None
        kind = view.concrete(pointer.element_type)
        size, form = type_bytes(kind), pointer.traced
        if form is None or size not in (1, 2, 4, 8) or not self.symbol or not view.is_plain_enough(node):
            return None
        if any(n.type in LOOPS for n in _between(node, self.loop)):
            return None
        fields = form.coefficient(self.symbol)
        if fields is None or not 1 <= fields <= _MOST_FIELDS:
            return None
        own = forms.number(form.constant)
        base = forms.subtract(form, own)
        return (kind, fields, base, form.constant) if base is not None else None

    def _usable(self, row: _Row) -> _Row | None:
        """The row of those elements that every output comes to, and others between them."""
        sure = [o for n, o in row.places if not any(b.type in _BRANCHES for b in _between(n, self.loop))]
        if not sure:
            return None
        places = tuple((n, o) for n, o in row.places if min(sure) <= o <= max(sure))
        row = msgspec.structs.replace(row, places=places)
        whole = {o - row.least for _, o in row.places} >= set(range(row.fields))
        if row.beside > _MOST_BESIDE or (row.stored and (row.beside >= row.fields or not whole)):
            return None
        if row.stored and len(places) != row.fields:
            return None
        return row if self._spelt(self._first(row)) is not None else None

    @staticmethod
    def _first(row: _Row) -> Node:
        """The element that comes first in memory."""
        return min(row.places, key=lambda p: p[1])[0]

    def _spelt(self, element: Node) -> list[Declared] | None:
        """The declarations that an element's place needs; None where it needs more than these."""
        needed, kept = set(self.view.names(element)), list[Declared]()
        inside = {
            d.name
            for n in walk(self.loop)
            if n.type == "declaration"
            for d in plainly_declared_in(self.view, n)
        }
        for one in reversed(self.declared):
            if one.name in needed:
                kept.append(one)
                needed |= self.view.names(one.value) if one.value is not None else frozenset()
        missing = needed & (inside - {d.name for d in kept} - {self.counter})
        return None if missing else kept[::-1]

    # the new text

    def result(self) -> RewriteResult:
        """All edits.

        Raises:
            Refused: outputs share too little for it.
        """
        reads = [r for r in self.rows if not r.stored]
        puts = [r for r in self.rows if r.stored]
        if not any(r.beside for r in reads):
            raise Refused("neighbouring outputs read nothing of each other's elements")
        view, style = self.view, Style(self.view)
        names = {id(r): style.local(_named(r)) for r in (*reads, *puts)}
        bytes_of = {id(r): self._bytes(r) for r in (*reads, *puts)}
        helpers, code = dict[tuple[str, int], str](), list[str]()

        def helper(way: str, bytes_: int) -> str:
            if (way, bytes_) not in helpers:
                helpers[way, bytes_] = style.name("loadRow" if way == "load" else "storeRow")
                text = _LOAD if way == "load" else _STORE
                code.append(text.format(name=helpers[way, bytes_], widest=bytes_, vector=_VECTORS[bytes_]))
            return helpers[way, bytes_]

        before, replaced = list[str](), list[tuple[Node, str]]()
        for row in (*reads, *puts):
            extra = f" + {row.beside - row.fields + 1}" if row.beside + 1 > row.fields else ""
            length = f"{row.fields} * {self.bound}" if row.fields > 1 else self.bound
            before.append(f"{row.type} {names[id(row)]}[{length}{extra}];")
            for place, offset in row.places:
                counter = f"{row.fields} * {self.counter}" if row.fields > 1 else self.counter
                at = offset - row.least
                replaced.append((place, f"{names[id(row)]}[{counter}{f' + {at}' if at else ''}]"))
        loads = [
            f"{helper('load', bytes_of[id(r)])}<{max(-r.least, 0) if -r.least <= r.beside else 0}>"
            f"(&{view.written(self._first(r))}, {names[id(r)]});"
            for r in reads
        ]
        before += self._block(reads, loads)
        stored = [
            f"{helper('store', bytes_of[id(r)])}(&{view.written(self._first(r))}, {names[id(r)]});"
            for r in puts
        ]
        after = self._block(puts, stored)
        return self._edits(style, code, before, replaced, after)

    def _bytes(self, row: _Row) -> int:
        """Of each vector: what all outputs of a thread are wide, sixteen at most."""
        width = self.count * row.fields * (type_bytes(row.type) or 1)
        return next((b for b in (16, 8, 4, 2) if width % b == 0), 2)

    def _block(self, rows: Sequence[_Row], lines: Sequence[str]) -> list[str]:
        """Lines in a scope of their own, with what their places need as the first output has it."""
        if not rows:
            return []
        needed = dict[str, Declared]()
        for row in rows:
            needed |= {d.name: d for d in self._spelt(self._first(row)) or ()}
        ordered = [d for d in self.declared if d.name in needed]
        own = [self._declaration(d) for d in ordered]
        return ["{", *(indented(n) for n in (*own, *lines)), "}"]

    def _declaration(self, one: Declared) -> str:
        value = f" = {_begun(self.view.written(one.value), self.counter)}" if one.value is not None else ""
        return f"{one.type} {one.stars}{one.name}{value};"

    def _edits(
        self,
        style: Style,
        code: Sequence[str],
        before: Sequence[str],
        replaced: Sequence[tuple[Node, str]],
        after: Sequence[str],
    ) -> RewriteResult:
        view, newline = self.view, self.view.text.newline
        begin = _with_pragma(view, self.loop)
        margin = view.margin(self.loop)
        level = max(round((len(margin) - len(style.margin)) / max(len(style.step), 1)), 1)
        above = style.above(newline.join(style.lines(c, 0) + newline for c in code))
        head = style.lines("\n".join(before), level) + newline
        line = view.text.text.rfind("\n", 0, begin) + 1
        edits = [above, TextEdit(view.text.span(line, line), head)]
        edits += self._unneeded(replaced)
        if after:
            end = view.end(self.loop)
            edits.append(TextEdit(view.text.span(end, end), newline + style.lines("\n".join(after), level)))
        return RewriteResult(tuple(edits), title="Load what neighbouring outputs share once", caveat=_CAVEAT)

    def _unneeded(self, replaced: Sequence[tuple[Node, str]]) -> list[TextEdit]:
        """The edits of the loop's body: elements in their rows, and no declaration that nothing needs any more."""
        view, gone = self.view, {place.id for place, _ in replaced}
        names = {d.name for d in self.declared}
        left = [
            n
            for n in walk(field(self.loop, "body"))
            if n.type == "identifier" and view.code(n) in names and not _is_in(n, gone)
        ]
        edits = list[TextEdit]()
        for node in reversed(self.body):
            every = plainly_declared_in(view, node)
            own = {d.name for d in every}
            used = {view.code(n) for n in left if not node.start_byte <= n.start_byte < node.end_byte}
            if not every or own & used or not own <= names or not view.is_plain_enough(node):
                continue
            left = [n for n in left if not node.start_byte <= n.start_byte < node.end_byte]
            begin, end = view.start(node), view.end(node)
            line = view.text.text.rfind("\n", 0, begin) + 1
            newline = view.text.newline
            whole = not view.text.text[line:begin].strip() and view.text.text.startswith(newline, end)
            span = view.text.span(line, end + len(newline)) if whole else view.span(node)
            edits.append(TextEdit(span, ""))
            gone |= {place.id for place, _ in replaced if node.start_byte <= place.start_byte < node.end_byte}
            replaced = [
                (p, new) for p, new in replaced if not node.start_byte <= p.start_byte < node.end_byte
            ]
        return [*edits, *(TextEdit(view.span(place), new) for place, new in replaced)]


def _flat(block: Node) -> Iterator[Node]:
    """A block's statements, and those of blocks that stand alone in it, as conditions leave them that are gone."""
    for node in statements(block):
        if node.type == "compound_statement":
            yield from _flat(node)
        else:
            yield node


def _is_inner(node: Node, loop: Node) -> bool:
    """Whether a jump ends a loop within, or one of its iterations."""
    leaves = node.type in ("break_statement", "continue_statement")
    return leaves and any(n.type in LOOPS for n in _between(node, loop))


def _is_in(node: Node, gone: set[int]) -> bool:
    """Whether a node stands within one of others."""
    outer: Node | None = node
    while outer is not None:
        if outer.id in gone:
            return True
        outer = outer.parent
    return False


def _between(node: Node, loop: Node) -> Iterator[Node]:
    """What stands around a node within a loop's body."""
    child, outer = node, node.parent
    while outer is not None and outer.id != loop.id:
        test = outer.child_by_field_name("condition")
        if test is None or test.id != child.id or outer.type in LOOPS:
            yield outer
        child, outer = outer, outer.parent


def _is_plain_store(element: Node) -> bool:
    outer = element.parent
    return (
        is_assigned(element)
        and outer is not None
        and outer.type == "assignment_expression"
        and operator_of(outer) == "="
        and outer.parent is not None
        and outer.parent.type == "expression_statement"
    )


def _named(row: _Row) -> str:
    return f"{row.array}_row" if "_" in row.array else f"{row.array}Row"


def _begun(text: str, counter: str) -> str:
    """An expression as the first output has it."""
    return renamed(re.sub(rf"\s*\+\s*{re.escape(counter)}\b", "", text), {counter: "0"})


def _with_pragma(view: View, loop: Node) -> int:
    """Where a loop begins in the file, the pragma above it included."""
    return start_with_pragmas(view.file, view.start(loop))
