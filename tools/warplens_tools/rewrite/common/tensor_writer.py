# SPDX-License-Identifier: Apache-2.0
"""Writes a product of narrow operands for tensor cores: tiles as `tile_writer` fills them, sums by warps."""

from __future__ import annotations

import re

import msgspec

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import declared_in
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.operand_tiles import Operand, Product
from warplens_tools.rewrite.common.reading import WORD, View, renamed
from warplens_tools.rewrite.common.style import indented, zero
from warplens_tools.rewrite.common.tensor_sums import read_sums
from warplens_tools.rewrite.common.tile_sides import Shape, Side, ordered
from warplens_tools.rewrite.common.tile_writer import TileWriter
from warplens_tools.text import SourceText, TextEdit

#: A matrix of the C++ interface; warps of a block, along y and along x.
EDGE, _ROWS, _COLUMNS = 16, 4, 2
#: Eight warps, each with 32 by 64 outputs of 128 by 128; two steps of 16 between barriers.
SHAPE = Shape(threads=(32, _ROWS * _COLUMNS), outputs=(4, 16), depth=32, name="Tensor")
_WMMA = "nvcuda::wmma"


def _shape(view: View, product: Product) -> Shape:
    """As large a tile as the outputs are wide, where a constant says that: heads of 64 would fill half of one."""
    limit = ordered(view, product)[0].limit
    width = view.expanded.constants.value(limit, view.body.start_byte) if limit else None
    threads, (most, rows) = SHAPE.threads[0], SHAPE.outputs
    if width is None or width > threads * most // 2:
        return SHAPE
    few = next(n for n in (1, 2) if width <= threads * n)
    return msgspec.structs.replace(SHAPE, outputs=(few, rows))


class TensorWriter(TileWriter):
    """The new text of one kernel, and of its launches.

    Raises:
        Refused: its operands are of other types, or more is done with them than to add up products.
    """

    def __init__(self, view: View, product: Product, launches: Launches) -> None:
        self.kind = read_sums(view, product)
        self.wide = self.kind.wide
        super().__init__(view, product, launches, _shape(view, product))
        self.columns, self.rows = self.sides
        self.state = product.states[0].declared
        self.sums = self.style.local(f"{self.state.name}Tiles")
        self.row, self.column = self.style.local("warpRow"), self.style.local("warpColumn")
        self.staged, self.element = self.style.local("staged"), self.style.local("e")
        if self.columns.axis.offset or self.rows.axis.offset:
            raise Refused("its outputs do not begin at the first")

    def _is_across(self, operand: Operand) -> bool:
        """Whether neighbours along the operand's axis are neighbours in memory."""
        pointer = self.view.place(operand.places[0])
        form = pointer.traced if pointer is not None else None
        side = self._side_of(operand)
        return form is not None and form.coefficient(f"threadIdx.{side.axis.letter}") == 1

    def _parts(self, side: Side) -> str:
        """Matrices of a warp along one axis."""
        return f"{side.tile} / {EDGE * (_ROWS if side is self.rows else _COLUMNS)}"

    def _shared(self) -> str:
        """Tiles as the operands lie in memory, so that 16 bytes go at once; rows padded by 16 bytes."""
        return "\n".join(
            f"__shared__ __align__(32) {o.element_type} {self.tiles[id(o)]}[{rows}][{columns}];"
            for o in self.product.operands
            for rows, columns in [self._extents(o)]
        )

    def _extents(self, operand: Operand) -> tuple[str, str]:
        rows, columns = self.depth, self._side_of(operand).tile
        if operand.along_loop:
            rows, columns = columns, rows
        return rows, f"{columns} + {self.wide}"

    def _load(self, operand: Operand) -> str:
        """Fill a tile by 16 bytes where they lie side by side in memory, else one by one."""
        product, side, t, q = self.product, self._side_of(operand), self.counter, self.element
        variable, axis = product.variable, side.axis.name
        slow, fast = (side.tile, self.depth) if operand.along_loop else (self.depth, side.tile)
        row, column = f"{t} / ({fast} / {self.wide})", f"{t} % ({fast} / {self.wide}) * {self.wide}"
        k, r = (column, row) if operand.along_loop else (row, column)
        first = [
            f"{side.axis.type} {axis} = {side.first} + {r};",
            f"{_plain(product.type)} {variable} = {self.outer} + {k};",
        ]
        ends = [f"{axis} < {side.limit}", self.view.written(product.condition)]
        known = [d for d in self._declarations(operand.names) if not self._is_axis(d)]
        shifted, moving = list(first), (axis, variable)[operand.along_loop]
        shifted[operand.along_loop] = f"{shifted[operand.along_loop].removesuffix(';')} + {q};"
        tile, empty = self._tile(operand), zero(operand.element_type)
        store = f"{tile}[{row}][{column} + {q}] = {' && '.join(ends)} ? {operand.written} : {empty};"
        alone = [
            f"for (int {q} = 0; {q} < {self.wide}; ++{q}) {{",
            *map(indented, [*shifted, *known, store]),
            "}",
        ]
        tests = [renamed(end, {moving: f"{moving} + {self.wide - 1}"}) for end in ends]
        tests.append(f"reinterpret_cast<size_t>(&{operand.written}) % 16 == 0")
        whole = [
            *first,
            *known,
            f"if ({' && '.join(tests)}) {{",
            f"  {self._copied(f'&{tile}[{row}][{column}]', f'&{operand.written}')}",
            "  continue;",
            "}",
        ]
        beside = operand.along_loop or self._is_across(operand)
        together = ["{", *map(indented, whole), "}"] if beside else []
        head = (
            f"for (int {t} = {self.thread}; {t} < {slow} * ({fast} / {self.wide}); {t} += {self.threads}) {{"
        )
        return "\n".join([head, *map(indented, [*together, *alone]), "}"])

    def _tile(self, operand: Operand) -> str:
        """The tile that is filled."""
        return self.tiles[id(operand)]

    def _read_tile(self, operand: Operand) -> str:
        """The tile that is multiplied."""
        return self.tiles[id(operand)]

    def _copied(self, target: str, source: str) -> str:
        """The statement that copies 16 bytes between two addresses."""
        return f"*reinterpret_cast<uint4*>({target}) = *reinterpret_cast<const uint4*>({source});"

    def _states(self) -> str:
        fragment = f"{_WMMA}::fragment<{_WMMA}::accumulator, {EDGE}, {EDGE}, {EDGE}, {self.kind.type}>"
        number = f"threadIdx.{self.rows.letter}"
        return "\n".join(
            [
                f"const int {self.row} = {number} / {_COLUMNS} * ({self.rows.tile} / {_ROWS});",
                f"const int {self.column} = {number} % {_COLUMNS} * ({self.columns.tile} / {_COLUMNS});",
                f"{fragment} {self.sums}[{self._parts(self.rows)}][{self._parts(self.columns)}];",
                self._both(f"{_WMMA}::fill_fragment({self._sum()}, {self.kind.zero});"),
            ]
        )

    def _sum(self) -> str:
        return f"{self.sums}[{self.rows.counter}][{self.columns.counter}]"

    def _both(self, inner: str) -> str:
        """Code for each of a warp's matrices."""
        for side in (self.columns, self.rows):
            head = f"for (int {side.counter} = 0; {side.counter} < {self._parts(side)}; ++{side.counter}) {{"
            inner = f"#pragma unroll\n{head}\n{indented(inner)}\n}}"
        return inner

    def _compute(self) -> str:
        lines = list[str]()
        names = {}
        for side, use in ((self.rows, "matrix_a"), (self.columns, "matrix_b")):
            operand = next(o for o in self.product.operands if o.axis == side.axis.name)
            layout = "row_major" if operand.along_loop == (use == "matrix_a") else "col_major"
            name = names[use] = self.style.local(f"{use[-1]}Part")
            kind = f"{_WMMA}::{use}, {EDGE}, {EDGE}, {EDGE}, {self.kind.operand}, {_WMMA}::{layout}"
            lines.append(f"{_WMMA}::fragment<{kind}> {name}[{self._parts(side)}];")
            lines.append(self._loaded(operand, side, name))
        first, second = (
            f"{names[u]}[{s.counter}]" for u, s in (("matrix_a", self.rows), ("matrix_b", self.columns))
        )
        lines.append(self._both(f"{_WMMA}::mma_sync({self._sum()}, {first}, {second}, {self._sum()});"))
        inner, depth = self.inner, self.depth
        head = f"#pragma unroll\nfor (int {inner} = 0; {inner} < {depth}; {inner} += {EDGE}) {{"
        return "\n".join([head, indented("\n".join(lines)), "}"])

    def _loaded(self, operand: Operand, side: Side, name: str) -> str:
        start = self.row if side is self.rows else self.column
        places, stride = [self.inner, f"{start} + {side.counter} * {EDGE}"], side.tile
        if operand.along_loop:
            places, stride = places[::-1], self.depth
        place = f"&{self._read_tile(operand)}[{places[0]}][{places[1]}]"
        load = f"{_WMMA}::load_matrix_sync({name}[{side.counter}], {place}, {stride} + {self.wide});"
        head = f"for (int {side.counter} = 0; {side.counter} < {self._parts(side)}; ++{side.counter})"
        return f"#pragma unroll\n{head} {load}"

    def _tail(self) -> str:
        e, warp = self.element, f"threadIdx.{self.rows.letter}"
        lane = f"threadIdx.{self.columns.letter}"
        store = f"{_WMMA}::store_matrix_sync(&{self.staged}[{warp}][0][0], {self._sum()}, {EDGE + 4}, "
        inner = [
            f"{store}{_WMMA}::mem_row_major);",
            "__syncwarp();",
            f"for (int {e} = {lane}; {e} < {EDGE * EDGE}; {e} += 32) {{",
            indented(self._output()),
            "}",
            "__syncwarp();",
        ]
        return f"{self._staging()}\n{self._both(chr(10).join(inner))}"

    def _staging(self) -> str:
        """The declaration of where each warp puts the sums of one matrix, so that every lane finds its own."""
        extents = f"[{self.rows.threads}][{EDGE}][{EDGE + 4}]"
        return f"__shared__ __align__(32) {self.kind.type} {self.staged}{extents};"

    def _output(self) -> str:
        """What is done with one sum."""
        e, state = self.element, self.state
        value = self.view.written(state.value) if state.value is not None else self.kind.zero
        staged = f"{self.staged}[threadIdx.{self.rows.letter}][{e} / {EDGE}][{e} % {EDGE}]"
        ends = [*self.outputs.early, *self.product.tail]
        names = frozenset[str]().union(*(self.view.names(n) for n in ends))
        names |= self.view.names(state.value) if state.value is not None else frozenset()
        tests = [f"{s.axis.name} < {s.limit}" for s in (self.rows, self.columns)] + list(self.outputs.others)
        names |= frozenset(WORD.findall(" ".join(tests)))
        own = {
            d.name for n in self.product.tail if n.type == "declaration" for d in declared_in(self.view, n)
        }
        axes = {s.axis.name for s in self.sides}
        kept = [d for d in self._declarations(names - own, axes) if not self._is_axis(d)]
        lines = [
            f"{s.axis.type} {s.axis.name} = {s.first} + {start} + {s.counter} * {EDGE} + {e} {sign} {EDGE};"
            for s, start, sign in ((self.rows, self.row, "/"), (self.columns, self.column, "%"))
        ]
        tail = [self.style.code(self.view.written(n)) for n in self.product.tail]
        inner = self._after_early([self.kind.declared(state.name, value, staged), *tail])
        return "\n".join([*lines, *kept, f"if ({' && '.join(tests)}) {{", indented("\n".join(inner)), "}"])


def _plain(written: str) -> str:
    """A type that may be set."""
    plain = " ".join(w for w in written.split() if w not in ("const", "register"))
    return "int" if plain == "auto" else plain


def including(text: SourceText, header: str) -> list[TextEdit]:
    """The edit that includes a header behind those that the file begins with; none where it does already."""
    if re.search(rf"#\s*include\s*<{re.escape(header)}>", text.text):
        return []
    found = list(re.finditer(r"^[ \t]*#[ \t]*include\b[^\n]*(?:\n|\Z)", text.text, re.MULTILINE))
    at = found[-1].end() if found else 0
    return [TextEdit(text.span(at, at), f"#include <{header}>{text.newline}")]
