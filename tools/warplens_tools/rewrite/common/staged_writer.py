# SPDX-License-Identifier: Apache-2.0
"""The code of outputs beside each other whose rows are loaded once, in vectors, and stored likewise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.rewrite.base import Refused, RewriteResult
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.groups import style_of
from warplens_tools.rewrite.common.insertion import start_with_pragmas
from warplens_tools.rewrite.common.reading import View, assigned, field, renamed
from warplens_tools.rewrite.common.staged_rows import Place, Row, StagedReader
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

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


class StagedRows(StagedReader):
    """A loop over neighbouring outputs of a thread, with the rows that they read and write."""

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
        named = style_of(view.kernel.name, style.step)
        names = {id(r): style.local(_named(r, named.snake)) for r in (*reads, *puts)}
        bytes_of = {id(r): self._bytes(r) for r in (*reads, *puts)}
        helpers, code = dict[tuple[str, int], str](), list[str]()

        def helper(way: str, bytes_: int) -> str:
            if (way, bytes_) not in helpers:
                helpers[way, bytes_] = style.name(named.function(way, "row"))
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
            place = f"&{view.written(self.first(row).node)}"
            loads[id(row)] = f"{helper('load', bytes_of[id(row)])}<{lead}>({place}, {to});"
        before += self._block(reads, loads)
        stored = {
            id(r): f"{helper('store', bytes_of[id(r)])}(&{view.written(self.first(r).node)}, {names[id(r)]});"
            for r in puts
        }
        after = self._block(puts, stored)
        return self._edits(style, code, before, replaced, after)

    def _index(self, row: Row, place: Place) -> str:
        """Where an element stands in the rows that were loaded."""
        terms = [f"{row.fields} * {self.counter}" if row.fields > 1 else self.counter]
        terms += [w.variable if w.by == 1 else f"{w.by} * {w.variable}" for w in place.along]
        at = place.offset - row.least - sum(w.by * w.first for w in place.along)
        rows = "".join(f"[{_moved(w.variable, -w.first)}]" for w in row.across)
        return f"{rows}[{_moved(' + '.join(terms), at)}]"

    def _bytes(self, row: Row) -> int:
        """Of each vector: what all outputs of a thread are wide, sixteen at most."""
        width = self.count * row.fields * (type_bytes(row.type) or 1)
        return next((b for b in (16, 8, 4, 2) if width % b == 0), 2)

    def _block(self, rows: Sequence[Row], lines: Mapping[int, str]) -> list[str]:
        """A line for each row, in a scope of their own, with what their places need as the first output has it."""
        if not rows:
            return []
        needed = dict[str, Declared]()
        for row in rows:
            needed |= {d.name: d for d in self.spelt(row) or () if d in self.declared}
        inner = [self._declaration(d) for d in self.declared if d.name in needed]
        for row in rows:
            inner += self._looped(row, lines[id(row)])
        return ["{", *(indented(n) for n in inner), "}"]

    def _looped(self, row: Row, line: str) -> list[str]:
        """The line for a row, in the loops that go from row to row."""
        place, view = self.first(row), self.view
        own = [d for d in self.spelt(row) or () if d not in self.declared]
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


def _is_in(node: Node, gone: set[int]) -> bool:
    """Whether a node stands within one of others."""
    outer: Node | None = node
    while outer is not None:
        if outer.id in gone:
            return True
        outer = outer.parent
    return False


def _named(row: Row, snake: bool) -> str:
    return f"{row.array}_row" if snake or "_" in row.array else f"{row.array}Row"


def _begun(text: str, counter: str) -> str:
    """An expression as the first output has it."""
    return renamed(re.sub(rf"\s*\+\s*{re.escape(counter)}\b", "", text), {counter: "0"})


def _with_pragma(view: View, loop: Node) -> int:
    """Where a loop begins in the file, the pragma above it included."""
    return start_with_pragmas(view.file, view.start(loop))
