# SPDX-License-Identifier: Apache-2.0
"""What neighbouring outputs of a thread read of the same rows: loaded once before their loop, in vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

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
#: Loops of more iterations are not unrolled, and their rows not kept in registers.
_MOST_TRIPS = 9
_SIZES = (1, 2, 4, 8)
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


class _Walk(msgspec.Struct, frozen=True):
    """A loop of a few iterations within an output, and how far an element goes along its row in each; 0 for a loop
    that goes from row to row.
    """

    loop: Node
    variable: str
    first: int
    trips: int
    by: int


class _Place(msgspec.Struct, frozen=True):
    """An element, its offset in its row where loops begin, and those that walk along it."""

    node: Node
    offset: int
    along: tuple[_Walk, ...] = ()

    @property
    def last(self) -> int:
        return self.offset + sum(w.by * (w.trips - 1) for w in self.along)


class _Row(msgspec.Struct, frozen=True):
    """Elements of one array that lie beside each other, however far, and go along with the outputs."""

    array: str
    type: str
    #: From one output's to the next one's.
    fields: int
    places: tuple[_Place, ...]
    stored: bool
    #: The loops that go from one such row to the next.
    across: tuple[_Walk, ...] = ()

    @property
    def least(self) -> int:
        return min(p.offset for p in self.places)

    @property
    def beside(self) -> int:
        """How many elements lie between the first and the last of an output's."""
        return max(p.last for p in self.places) - self.least


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
        view, found = self.view, dict[tuple[str, Form, tuple[str, ...]], _Row]()
        written = {e.id for n in self.body for e in stores(view, n)}
        arrays = {view.array(e) for n in self.body for e in view.elements(n) if e.id in written}
        shared = same_buffer(view.file, view.model, view.kernel)
        for element in (e for n in self.body for e in view.elements(n)):
            stored, array = element.id in written, view.array(element)
            same = shared if array in shared else {array}
            read = self._element(element)
            if read is None or (stored and not _is_plain_store(element)):
                continue
            if len(arrays & same) > (1 if stored else 0):
                continue
            base, one = read
            one = msgspec.structs.replace(one, array=array, stored=stored)
            key = (array, base, tuple(w.variable for w in one.across))
            known = found.get(key)
            if known is None:
                found[key] = one
            elif (known.fields, known.stored) == (one.fields, one.stored):
                found[key] = msgspec.structs.replace(known, places=(*known.places, *one.places))
        sure = {r.array for r in found.values() for p in r.places if self._is_sure(p.node)}
        return [r for r in found.values() if r.array in sure and self._is_usable(r)]

    def _element(self, node: Node) -> tuple[Form, _Row] | None:
        """The row of an element, and its place in it; None for what stays, or is walked by loops of any length."""
        view, pointer = self.view, self.view.place(node)
        if node.type != "subscript_expression" or pointer is None or pointer.space != "global":
            return None
        kind, form = view.concrete(pointer.element_type), pointer.traced
        if (
            form is None
            or type_bytes(kind) not in _SIZES
            or not self.symbol
            or not view.is_plain_enough(node)
        ):
            return None
        fields, base = form.coefficient(self.symbol), forms.subtract(form, forms.number(form.constant))
        if base is None or fields is None or not 1 <= fields <= _MOST_FIELDS:
            return None
        along, across = list[_Walk](), list[_Walk]()
        for loop in [n for n in _between(node, self.loop) if n.type in LOOPS][::-1]:
            symbol, walk_ = view.forms.loop(loop).counter, self._walk(loop)
            growth = form.growth(symbol) if symbol else None
            if growth is None or walk_ is None or (growth.value is not None and growth.value < 0):
                return None
            if growth.value is None:
                across.append(walk_)
            elif growth.value:
                along.append(msgspec.structs.replace(walk_, by=growth.value))
        place = _Place(node, form.constant, tuple(along))
        return base, _Row("", kind, fields, (place,), stored=False, across=tuple(across))

    def _walk(self, loop: Node) -> _Walk | None:
        """A loop of a few iterations that counts up; None for any other."""
        counted, trips = counting(self.view.expanded, loop), self.view.forms.loop(loop).trips
        if counted is None or trips is None or not 1 <= trips <= _MOST_TRIPS or not counted.declared:
            return None
        first = self.view.value(counted.first) if counted.first is not None else None
        plain = counted.step == "1" and not counted.downward and first is not None
        return _Walk(loop, counted.variable, first or 0, trips, 0) if plain else None

    def _is_sure(self, node: Node) -> bool:
        """Whether every output comes to an element."""
        return not any(b.type in _BRANCHES - LOOPS for b in _between(node, self.loop))

    def _is_usable(self, row: _Row) -> bool:
        """Whether a row is short, whole where it is stored, and can be named before the loop."""
        if row.beside > _MOST_BESIDE or self._spelt(row) is None:
            return False
        if not row.stored:
            return True
        whole = sorted(p.offset - row.least for p in row.places) == list(range(row.fields))
        looped = row.across or any(p.along for p in row.places)
        return whole and not looped and all(self._is_sure(p.node) for p in row.places)

    @staticmethod
    def _first(row: _Row) -> _Place:
        """The element that comes first in memory."""
        return min(row.places, key=lambda p: p.offset)

    def _spelt(self, row: _Row) -> list[Declared] | None:
        """The declarations that a row's place needs; None where it needs more than these."""
        view, place = self.view, self._first(row)
        needed, kept = set(view.names(place.node)), list[Declared]()
        every = [d for n in walk(self.loop) if n.type == "declaration" for d in plainly_declared_in(view, n)]
        seen = [d for d in every if d in self.declared or self._is_around(d, place.node)]
        counters = {w.variable for w in (*row.across, *place.along)} | {self.counter}
        for one in reversed(seen):
            if one.name in needed and one.name not in counters:
                kept.append(one)
                needed |= view.names(one.value) if one.value is not None else frozenset()
        missing = needed & ({d.name for d in every} - {d.name for d in kept} - counters)
        return None if missing else kept[::-1]

    def _is_around(self, one: Declared, node: Node) -> bool:
        """Whether a variable is declared, once and for all, in a loop around an element."""
        block = one.statement.parent
        holds = block is not None and block.start_byte <= node.start_byte < block.end_byte
        changed = {name for n in self.body for name, _ in assigned(n, self.view)}
        return holds and one.statement.end_byte <= node.start_byte and one.name not in changed

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
            dims = "".join(f"[{w.trips}]" for w in row.across)
            before.append(f"{row.type} {names[id(row)]}{dims}[{length}{extra}];")
            replaced += [(p.node, f"{names[id(row)]}{self._index(row, p)}") for p in row.places]
        loads = dict[int, str]()
        for row in reads:
            lead = -row.least if 0 <= -row.least <= row.beside else 0
            to = names[id(row)] + "".join(f"[{_moved(w.variable, -w.first)}]" for w in row.across)
            place = f"&{view.written(self._first(row).node)}"
            loads[id(row)] = f"{helper('load', bytes_of[id(row)])}<{lead}>({place}, {to});"
        before += self._block(reads, loads)
        stored = {
            id(
                r
            ): f"{helper('store', bytes_of[id(r)])}(&{view.written(self._first(r).node)}, {names[id(r)]});"
            for r in puts
        }
        after = self._block(puts, stored)
        return self._edits(style, code, before, replaced, after)

    def _index(self, row: _Row, place: _Place) -> str:
        """Where an element stands in the rows that were loaded."""
        terms = [f"{row.fields} * {self.counter}" if row.fields > 1 else self.counter]
        terms += [w.variable if w.by == 1 else f"{w.by} * {w.variable}" for w in place.along]
        at = place.offset - row.least - sum(w.by * w.first for w in place.along)
        rows = "".join(f"[{_moved(w.variable, -w.first)}]" for w in row.across)
        return f"{rows}[{_moved(' + '.join(terms), at)}]"

    def _bytes(self, row: _Row) -> int:
        """Of each vector: what all outputs of a thread are wide, sixteen at most."""
        width = self.count * row.fields * (type_bytes(row.type) or 1)
        return next((b for b in (16, 8, 4, 2) if width % b == 0), 2)

    def _block(self, rows: Sequence[_Row], lines: Mapping[int, str]) -> list[str]:
        """A line for each row, in a scope of their own, with what their places need as the first output has it."""
        if not rows:
            return []
        needed = dict[str, Declared]()
        for row in rows:
            needed |= {d.name: d for d in self._spelt(row) or () if d in self.declared}
        inner = [self._declaration(d) for d in self.declared if d.name in needed]
        for row in rows:
            inner += self._looped(row, lines[id(row)])
        return ["{", *(indented(n) for n in inner), "}"]

    def _looped(self, row: _Row, line: str) -> list[str]:
        """The line for a row, in the loops that go from row to row."""
        place, view = self._first(row), self.view
        own = [d for d in self._spelt(row) or () if d not in self.declared]
        begun = [f"const int {w.variable} = {w.first};" for w in place.along]
        lines = [*begun, *map(self._declaration, own), line]
        if not row.across:
            return ["{", *map(indented, lines), "}"] if begun or own else lines
        for one in reversed(row.across):
            body = field(one.loop, "body")
            head = " ".join(view.text.text[view.start(one.loop) : view.start(body)].split())
            lines = ["#pragma unroll", f"{head} {{", *map(indented, lines), "}"]
        return lines

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
        edits += [*self._unneeded(replaced), *self._unrolled()]
        if after:
            end = view.end(self.loop)
            edits.append(TextEdit(view.text.span(end, end), newline + style.lines("\n".join(after), level)))
        return RewriteResult(tuple(edits), title="Load what neighbouring outputs share once", caveat=_CAVEAT)

    def _unrolled(self) -> Iterator[TextEdit]:
        """Pragmas for the loops that walk rows: what a number indexes alone is kept in registers."""
        view, seen = self.view, set[int]()
        walks = (w for r in self.rows for ws in (r.across, *(p.along for p in r.places)) for w in ws)
        for one in walks:
            begin = view.start(one.loop)
            line = view.text.text.rfind("\n", 0, begin) + 1
            alone = not view.text.text[line:begin].strip()
            if one.loop.id in seen or not alone or start_with_pragmas(view.file, begin) != begin:
                continue
            seen.add(one.loop.id)
            pragma = f"#pragma unroll{view.text.newline}{view.text.text[line:begin]}"
            yield TextEdit(view.text.span(begin, begin), pragma)

    def _unneeded(self, replaced: Sequence[tuple[Node, str]]) -> list[TextEdit]:
        """The edits of the loop's body: elements in their rows, and no declaration that nothing needs any more."""
        view, gone = self.view, {place.id for place, _ in replaced}
        changed = {name for n in self.body for name, _ in assigned(n, view)}
        every = [
            (n, plainly_declared_in(view, n))
            for n in walk(field(self.loop, "body"))
            if n.type == "declaration"
        ]
        every = [
            (n, ds)
            for n, ds in every
            if ds and n.parent is not None and n.parent.type == "compound_statement"
        ]
        names = {d.name for _, ds in every for d in ds} - changed
        left = [
            n
            for n in walk(field(self.loop, "body"))
            if n.type == "identifier" and view.code(n) in names and not _is_in(n, gone)
        ]
        edits = list[TextEdit]()
        for node, declared in reversed(every):
            own = {d.name for d in declared}
            used = {view.code(n) for n in left if not node.start_byte <= n.start_byte < node.end_byte}
            if own & used or not own <= names or not view.is_plain_enough(node):
                continue
            left = [n for n in left if not node.start_byte <= n.start_byte < node.end_byte]
            begin, end, newline = view.start(node), view.end(node), view.text.newline
            line = view.text.text.rfind("\n", 0, begin) + 1
            whole = not view.text.text[line:begin].strip() and view.text.text.startswith(newline, end)
            span = view.text.span(line, end + len(newline)) if whole else view.span(node)
            edits.append(TextEdit(span, ""))
            replaced = [
                (p, new) for p, new in replaced if not node.start_byte <= p.start_byte < node.end_byte
            ]
        return [*edits, *(TextEdit(view.span(place), new) for place, new in replaced)]


def _moved(index: str, by: int) -> str:
    """An index with a number added."""
    return f"{index} {'+' if by > 0 else '-'} {abs(by)}" if by else index


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
