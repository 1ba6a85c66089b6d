# SPDX-License-Identifier: Apache-2.0
"""Writes a matrix product anew: vectors from memory into tiles of shared memory, the next tiles fetched while the ones
there are multiplied, and a block of outputs a thread in registers.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.idioms.common.bounds import bounded
from warplens_tools.idioms.common.vector_places import Addressed, addressed
from warplens_tools.idioms.common.vector_stores import Stored, stored
from warplens_tools.rewrite.base import Refused, RewriteResult
from warplens_tools.rewrite.common.declared import unqualified
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.operand_tiles import Operand, Product
from warplens_tools.rewrite.common.reading import View, renamed
from warplens_tools.rewrite.common.style import indented, zero
from warplens_tools.rewrite.common.tile_sides import Shape, Side, sides_of
from warplens_tools.rewrite.common.tile_writer import TileWriter
from warplens_tools.rewrite.common.vectors import BY_BYTES

#: 256 threads with 8 by 8 outputs each: two vectors of either operand feed 64 multiply-adds. Of eight bytes an element,
#: two stages of such tiles are more than a block's static shared memory.
SHAPE = Shape(threads=(16, 16), outputs=(8, 8), depth=16, name="Product")
WIDE_SHAPE = Shape(threads=(16, 16), outputs=(4, 4), depth=16, name="Product")
#: Bytes of the largest element of which a vector holds two.
_WIDEST = 8


class VectorSide(Side, frozen=True):
    """An axis along which a thread's outputs lie in vectors, one of each thread beside the other's."""

    wide: int = 4

    def place(self) -> str:
        """Where in the tile the thread's output stands."""
        return f"{self.vector(f'{self.counter} / {self.wide}')} + {self.counter} % {self.wide}"

    def vector(self, number: str) -> str:
        """Where in the tile the thread's vector of that number begins."""
        return f"{number} * ({self.threads} * {self.wide}) + threadIdx.{self.letter} * {self.wide}"


class ProductWriter(TileWriter):
    """The new text of one kernel, and of its launches.

    Raises:
        Refused: it is no plain product of two matrices.
    """

    def __init__(self, view: View, product: Product, launches: Launches, shape: Shape | None = None) -> None:
        self.bytes = _bytes(view, product)
        self.wide = 2 if 8 in self.bytes.values() else 4
        self.rests = _rests(view, product)
        several = sum(bool(s.axes) for s in product.states) > 1
        usual = WIDE_SHAPE if several or self.wide < 4 else SHAPE
        super().__init__(view, product, launches, shape or usual)
        if any(s.axis.offset for s in self.sides):
            raise Refused("its outputs do not begin at the first")
        local = self.style.local
        self.fetch, self.keep, self.stage = local("fetch"), local("keep"), local("stage")
        self.now, self.more = local("now"), local("more")
        self.part, self.element = local("p"), local("e")
        self.columns, self.rows = self.sides
        self.next = {i: local(f"next{n[4:].lstrip('_').title()}") for i, n in self.tiles.items()}
        self.parts = {i: local(f"parts{n[4:].lstrip('_').title()}") for i, n in self.tiles.items()}
        self.own_values = {i: local(f"own{n[4:].lstrip('_').title()}") for i, n in self.tiles.items()}

    def _sides(self) -> list[Side]:
        found = sides_of(self.view, self.product, self.launches, self.style, self.shape)
        return [
            VectorSide(s.axis, s.letter, s.limit, s.threads, s.outputs, s.tile, s.first, s.counter, self.wide)
            for s in found
        ]

    def result(self, title: str, caveat: str) -> RewriteResult:
        """All edits."""
        blocks = self.style.constant(
            f"k{self.shape.name}Blocks", "2", "of a multiprocessor at a time, at least"
        )
        found = super().result(title, caveat)
        return msgspec.structs.replace(found, edits=(bounded(self.view, self.threads, blocks), *found.edits))

    # tiles

    def _shared(self) -> str:
        lines = list[str]()
        for operand in self.product.operands:
            side, name = self._side_of(operand), self.tiles[id(operand)]
            extents = f"[2][{self.depth}][{side.tile}{self._padding(operand)}]"
            lines.append(f"__shared__ __align__(16) {operand.element_type} {name}{extents};")
        return "\n".join(lines)

    def _padding(self, operand: Operand) -> str:
        """Rows that are written across are padded by a vector, so that they stay aligned."""
        return f" + {self.wide}" if self._addressed(operand).along == self.product.variable else ""

    def _addressed(self, operand: Operand) -> Addressed:
        variables = (self.product.variable, str(operand.axis))
        return addressed(self.view, operand.places[0], variables, self.rests)

    def _loop(self) -> str:
        product, written = self.product, unqualified(self.product.type)
        condition, first = self.view.written(product.condition), product.first
        if self.ragged:
            condition, first = self.ragged.condition(condition), self.ragged.first(first)
        here = renamed(condition, {product.variable: self.outer})
        further = renamed(condition, {product.variable: f"{self.outer} + {self.depth}"})
        loop = [
            f"for ({written} {self.outer} = {first}; {here}; {self.outer} += {self.depth}) {{",
            f"  const bool {self.more} = {further};",
            f"  if ({self.more}) {self.fetch}({self.outer} + {self.depth});",
            indented(self._compute()),
            f"  if ({self.more}) {self.keep}({self.now} ^ 1);",
            "  __syncthreads();",
            f"  {self.now} ^= 1;",
            "}",
        ]
        text = "\n".join(
            [
                *map(self._held, product.operands),
                self._of_all(f"auto {self.fetch} = [&]({written} {self.outer}) {{", self._fetched),
                self._of_all(f"auto {self.keep} = [&](int {self.stage}) {{", self._kept_tile),
                f"{self.fetch}({first});",
                f"{self.keep}(0);",
                "__syncthreads();",
                f"int {self.now} = 0;",
                *loop,
            ]
        )
        return f"{self._needed()}\n{indented(text)}\n}}" if self.outputs.early else text

    def _of_all(self, head: str, of: Callable[[Operand], str]) -> str:
        return "\n".join([head, *(indented(of(o)) for o in self.product.operands), "};"])

    def _held(self, operand: Operand) -> str:
        """The vectors of a tile that one thread fetches."""
        number, side = id(operand), self._side_of(operand)
        count = f"({side.tile} * {self.depth} / {self.wide} + {self.threads} - 1) / ({self.threads})"
        return (
            f"constexpr int {self.parts[number]} = {count};\n"
            f"alignas(16) {operand.element_type} {self.next[number]}[{self.parts[number]}][{self.wide}];"
        )

    def _each_part(self, operand: Operand, inner: list[str]) -> str:
        p, t = self.part, self.counter
        head = f"for (int {p} = 0; {p} < {self.parts[id(operand)]}; ++{p}) {{"
        number = f"const int {t} = {self.thread} + {p} * ({self.threads});"
        return "\n".join(["#pragma unroll", head, *map(indented, [number, *inner]), "}"])

    def _places(self, operand: Operand) -> tuple[str, str]:
        """Where in a tile the vector begins: in its depth, and along the axis."""
        side, t = self._side_of(operand), self.counter
        fast = self.depth if self._addressed(operand).along == self.product.variable else side.tile
        slow, quick = f"{t} / ({fast} / {self.wide})", f"{t} % ({fast} / {self.wide}) * {self.wide}"
        return (quick, slow) if fast == self.depth else (slow, quick)

    def _inside_tile(self, operand: Operand) -> str:
        return f"{self.counter} < {self._side_of(operand).tile} * {self.depth} / {self.wide}"

    def _fetched(self, operand: Operand) -> str:
        """A vector where it lies side by side in memory, inside and aligned; else its elements one by one."""
        product, side, e = self.product, self._side_of(operand), self.element
        place, target = self._addressed(operand), f"{self.next[id(operand)]}[{self.part}]"
        k, r = self._places(operand)
        variable, axis = product.variable, side.axis.name
        first = {
            axis: f"{unqualified(side.axis.type)} {axis} = {side.first} + {r}",
            variable: f"{unqualified(product.type)} {variable} = {self.outer} + {k}",
        }
        moving = variable if k.endswith(f"* {self.wide}") else axis
        ends = [f"{axis} < {side.limit}", self._steps_of(operand)]
        known = [d for d in self._declarations(operand.names) if not self._is_axis(d)]
        lines, vector = list[str](), self._vector(operand)
        if place.along:
            tests = [self._inside_tile(operand)]
            tests += ends if self.ragged else []
            tests += [renamed(end, {moving: f"{moving} + {self.wide - 1}"}) for end in ends]
            bytes_ = self.wide * self.bytes[id(operand)]
            tests.append(f"reinterpret_cast<size_t>({place.address}) % {bytes_} == 0")
            load = f"*reinterpret_cast<const {vector}*>({place.address})"
            whole = [f"{value};" for value in first.values()] + known
            whole += [f"if ({' && '.join(tests)}) {{"]
            whole += [f"  *reinterpret_cast<{vector}*>({target}) = {load};", "  continue;", "}"]
            lines += ["{", *map(indented, whole), "}"]
        single = [f"{value}{f' + {e}' if name == moving else ''};" for name, value in first.items()] + known
        test = " && ".join([self._inside_tile(operand), *ends])
        single.append(f"{target}[{e}] = {test} ? {operand.written} : {self._empty(operand)};")
        lines += ["#pragma unroll", f"for (int {e} = 0; {e} < {self.wide}; ++{e}) {{"]
        lines += [*map(indented, single), "}"]
        return self._each_part(operand, lines)

    def _steps_of(self, operand: Operand) -> str:
        """The steps of the loop in which an operand is read: those of its own output, where they differ."""
        product, condition = self.product, self.view.written(self.product.condition)
        if self.ragged and operand.axis != product.ragged:
            return self.ragged.condition(condition)
        if self.ragged and self.ragged.first(product.first) != product.first:
            return f"{product.variable} >= {product.first} && {condition}"
        return condition

    def _kept_tile(self, operand: Operand) -> str:
        tile, e = f"{self.tiles[id(operand)]}[{self.stage}]", self.element
        source, (k, r) = f"{self.next[id(operand)]}[{self.part}]", self._places(operand)
        if k.endswith(f"* {self.wide}"):
            each = f"for (int {e} = 0; {e} < {self.wide}; ++{e}) {tile}[{k} + {e}][{r}] = {source}[{e}];"
            inner = ["#pragma unroll", each]
        else:
            vector = self._vector(operand)
            target = f"*reinterpret_cast<{vector}*>(&{tile}[{k}][{r}])"
            inner = [f"{target} = *reinterpret_cast<{vector}*>({source});"]
        return self._each_part(operand, [f"if ({self._inside_tile(operand)}) {{", *map(indented, inner), "}"])

    def _vector(self, operand: Operand) -> str:
        """The type of a vector of an operand's elements."""
        plain = self.view.concrete(operand.element_type)
        return {("float", 4): "float4", ("double", 2): "double2", ("int", 4): "int4"}.get(
            (plain, self.wide), BY_BYTES[self.wide * self.bytes[id(operand)]]
        )

    def _empty(self, operand: Operand) -> str:
        """What stands in a tile outside of the matrix."""
        fill = self.product.fill
        return zero(operand.element_type) if fill is None else self.view.written(fill)

    # the arithmetic

    def _read_ahead(self) -> list[str]:
        return [line for operand in self.product.operands for line in self._vectors(operand)]

    def _vectors(self, operand: Operand) -> list[str]:
        """The thread's elements of a tile's row, in vectors."""
        side, name = self._side_of(operand), self.own_values[id(operand)]
        assert isinstance(side, VectorSide)
        vector, c = self._vector(operand), side.counter
        place = side.vector(f"{c} / {self.wide}")
        source = f"&{self.tiles[id(operand)]}[{self.now}][{self.inner}][{place}]"
        return [
            f"alignas(16) {operand.element_type} {name}[{side.outputs}];",
            "#pragma unroll",
            f"for (int {c} = 0; {c} < {side.outputs}; {c} += {self.wide}) {{",
            f"  *reinterpret_cast<{vector}*>(&{name}[{c}]) = *reinterpret_cast<const {vector}*>({source});",
            "}",
        ]

    def _in_tile(self, operand: Operand) -> str:
        return f"{self.own_values[id(operand)]}[{self._side_of(operand).counter}]"

    # the results

    def _tail(self) -> str:
        found = stored(self.view, self.product, self.columns.axis.name, self.rests)
        vector = BY_BYTES.get(found.bytes * self.wide) if found is not None else None
        if found is None or vector is None or self.outputs.others or self.outputs.early:
            return super()._tail()
        return self._in_vectors(found, vector)

    def _in_vectors(self, found: Stored, vector: str) -> str:
        """Results in vectors where they are inside and aligned, else one by one as the kernel stored them."""
        x, y, e, out = self.columns, self.rows, self.element, self.style.local("out")
        assert isinstance(x, VectorSide)
        axis, size, last = x.axis.name, found.bytes * self.wide, f"{self.wide - 1}"
        names = self.view.names(self.product.tail[0])
        known = [d for d in self._declarations(names, {axis, y.axis.name}) if not self._is_axis(d)]
        first = f"{x.axis.type} {axis} = {x.first} + {x.vector(f'{x.counter} / {self.wide}')}"
        one = {x.counter: f"{x.counter} + {e}"}
        instances = {name: renamed(text, one) for name, text in self._instances().items()}
        every = ["#pragma unroll", f"for (int {e} = 0; {e} < {self.wide}; ++{e}) {{"]
        tests = [f"{y.axis.name} < {y.limit}", f"{axis} + {last} < {x.limit}"]
        tests.append(f"reinterpret_cast<size_t>({found.address}) % {size} == 0")
        fill = [f"{first} + {e};", *known, f"{out}[{e}] = {renamed(found.value, instances)};"]
        whole = [f"alignas({size}) {found.type} {out}[{self.wide}];", *every, *map(indented, fill), "}"]
        whole += [f"*reinterpret_cast<{vector}*>({found.address}) = *reinterpret_cast<{vector}*>({out});"]
        whole = [f"if ({' && '.join(tests)}) {{", *map(indented, [*whole, "continue;"]), "}"]
        text = self.style.code(renamed(self.view.written(self.product.tail[0]), instances))
        single = [f"{first} + {e};", *known, f"if ({y.axis.name} < {y.limit} && {axis} < {x.limit}) {text}"]
        lines = [y.declaration(), "{", *map(indented, [f"{first};", *known, *whole]), "}"]
        lines += [*every, *map(indented, single), "}"]
        head = f"for (int {x.counter} = 0; {x.counter} < {x.outputs}; {x.counter} += {self.wide}) {{"
        return self._each("\n".join(["#pragma unroll", head, *map(indented, lines), "}"]), [y])


def _bytes(view: View, product: Product) -> dict[int, int]:
    """The bytes of each operand's elements, by its identity.

    Raises:
        Refused: the operands are not read by rows and by columns, or are of sizes that no vector holds several of.
    """
    if len(product.outputs.axes) != 2:
        raise Refused("its outputs are no matrix")
    axes = {o.axis for o in product.operands}
    if None in axes or len(axes) != 2:
        raise Refused("it does not fold rows of one array with columns of another")
    found = {id(o): type_bytes(view.concrete(o.element_type)) or 16 for o in product.operands}
    if max(found.values()) > _WIDEST:
        raise Refused("its elements are too large to be read several at a time")
    return found


def _rests(view: View, product: Product) -> dict[str, frozenset[str]]:
    """What names of the loop's body rest on."""
    found = {**product.outputs.rests, product.variable: frozenset({product.variable})}
    for one in product.locals:
        names = view.names(one.value) if one.value is not None else frozenset[str]()
        found[one.name] = frozenset[str]().union(*(found.get(n, frozenset()) for n in names))
    return found
