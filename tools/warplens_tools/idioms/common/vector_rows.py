# SPDX-License-Identifier: Apache-2.0
"""Writes passes over a row anew: a thread has vectors of it, and keeps in registers what a later pass needs."""

from __future__ import annotations

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.held_rows import Row
from warplens_tools.rewrite.common.held_writer import HeldWriter, as_operand
from warplens_tools.rewrite.common.passes import Group, Pass
from warplens_tools.rewrite.common.reading import View, field, renamed, stores, substituted
from warplens_tools.rewrite.common.strided_work import strided_arrays
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.rewrite.common.vectors import Array, elements_of_vector


class VectorRows(HeldWriter):
    """The passes of one group, with rows kept in vectors.

    Raises:
        Refused: what is kept does not lie side by side.
    """

    def __init__(
        self, view: View, style: Style, group: Group, rows: tuple[Row, ...], names: dict[str, str]
    ) -> None:
        """`names` are those that arrays of other groups have; new ones join them."""
        super().__init__(view, style, group, rows, "", "", names)
        self._taken = names
        self.touched = [k for k in range(len(group.passes)) if any(self.is_in(r, k) for r in rows)]
        self.arrays_of = {k: self._arrays(group.passes[k]) for k in self.touched}
        for number, row in ((row.first, row) for row in rows):
            if not self.defines(row, number) and self._array_at(number, row.uses[number]) is None:
                raise Refused("what a pass leaves for a later one does not lie side by side")
        every = [a for arrays in self.arrays_of.values() for a in arrays]
        self.count = elements_of_vector(view, tuple(every))

    def named(self, held: str, vector: str) -> VectorRows:
        """With the names of the constants: vectors that a thread keeps, and elements of one."""
        self.held, self.vector = held, vector
        self.counter, self.first, self.element = (self._local(n) for n in ("h", "first", "v"))
        return self

    def _local(self, wanted: str) -> str:
        return self._taken.setdefault(f"local {wanted}", self.style.local(wanted))

    def _arrays(self, one: Pass) -> tuple[Array, ...]:
        """Those that a pass walks element by element, and accesses in no other way."""
        try:
            found = strided_arrays(self.view, one.loop, wide=True)[1]
        except Refused:
            return ()
        names = [a.name for a in found]
        return tuple(a for a in found if a.fields == 1 and not a.least and names.count(a.name) == 1)

    def _array_at(self, number: int, uses: tuple[Node, ...]) -> Array | None:
        own = {e.id for e in uses}
        return next((a for a in self.arrays_of[number] if any(p.id in own for p, _ in a.places)), None)

    # one pass

    def _array(self, row: Row, name: str) -> str:
        return f"alignas(16) {row.type} {name}[{self.held} * {self.vector}];"

    def _behind(self, first: str, step: str) -> str:
        return f"{self.held} * {self.vector} * {step} + {first}"

    def _each_kept(self, number: int, place: str) -> list[str]:
        one = self.group.passes[number]
        declared = f"const {one.type} {self.first} = {self.vector} * ({place});".replace(
            "const const", "const"
        )
        return [declared, *self._vectors(number)]

    def _vectors(self, number: int) -> list[str]:
        """What is done with one vector: loads, the work on each element, stores."""
        one = self.group.passes[number]
        kept = {e.id: name for row, name in self._here(number) for e in row.uses[number]}
        loads, after, pairs = list[str](), list[str](), list[tuple[Node, str]]()
        for row, name in self._here(number):
            array, place = self._array_at(number, row.uses[number]), f"{name}[{self._place()}]"
            pairs += [(e, place) for e in row.uses[number]]
            if number == row.first and not self.defines(row, number) and array is not None:
                loads += self._moved(one, array, f"{name}[{self.counter} * {self.vector}]", loads=True)
            direct = self.direct(row, number)
            if direct is not None and array is not None:
                part = self._part(array)
                loads.append(self._declared(array, part))
                pairs = self._with_store(direct, place, f"{part}[{self.element}]", pairs)
                after += self._moved(one, array, f"{part}[0]", loads=False)
            elif direct is not None:
                pairs = self._stored(direct, place, pairs)
            elif self.writes_back(row, number) and array is not None:
                after += self._moved(one, array, f"{name}[{self.counter} * {self.vector}]", loads=False)
            elif self.writes_back(row, number):
                own = next(e for e in stores(self.view, one.body) if e.id in {u.id for u in row.uses[number]})
                after += self._each(one, [f"{self.view.written(own)} = {place};"])
        for array in self.arrays_of[number]:
            if any(p.id in kept for p, _ in array.places):
                continue
            part = self._part(array)
            loads.append(self._declared(array, part))
            pairs += [(p, f"{part}[{self.element}]") for p, _ in array.places]
            loads += self._moved(one, array, f"{part}[0]", loads=True) if array.read else []
            after += self._moved(one, array, f"{part}[0]", loads=False) if array.stored else []
        work = [line for text in self._work(one, pairs) for line in text.split("\n")]
        return [*loads, *self._each(one, work), *after]

    def _here(self, number: int) -> list[tuple[Row, str]]:
        pairs = zip(self.rows, self.arrays, strict=True)
        return [(row, name) for row, name in pairs if self.is_in(row, number)]

    def _place(self) -> str:
        return f"{self.counter} * {self.vector} + {self.element}"

    def _part(self, array: Array) -> str:
        plain = "".join(c if c.isalnum() else "_" for c in array.name)
        return self._local(f"{plain}_part" if "_" in plain else f"{plain}Part")

    def _declared(self, array: Array, part: str) -> str:
        return f"alignas(16) {array.type} {part}[{self.vector}];"

    def _each(self, one: Pass, inner: list[str]) -> list[str]:
        """Work on each element of the vector that is inside of the row."""
        v, limit = self.element, self.view.written(one.limit)
        body = [f"{one.type} {one.name} = {self.first} + {v};", f"if ({one.name} < {limit}) {{"]
        body += [*map(indented, inner), "}"]
        head = f"for (int {v} = 0; {v} < {self.vector}; ++{v}) {{"
        return ["#pragma unroll", head, *map(indented, body), "}"]

    def _moved(self, one: Pass, array: Array, registers: str, *, loads: bool) -> list[str]:
        """A vector between memory and registers: whole where it is inside and aligned, else element by element."""
        element = array.written
        address, size = f"&{renamed(element, {one.name: self.first})}", array.width(self.count)
        limit, vector, v = self.view.written(one.limit), array.vector(self.count), self.element
        inside = f"{self.first} + {self.vector} <= {limit}"
        here, there = (
            f"*reinterpret_cast<{vector}*>(&{registers})",
            f"*reinterpret_cast<{vector}*>({address})",
        )
        base, _, offset = registers.removesuffix("]").partition("[")
        single = f"{base}[{v}]" if offset == "0" else f"{base}[{offset} + {v}]"
        if loads:
            there = there.replace("<", "<const ", 1)
        whole, alone = (
            (f"{here} = {there};", f"{single} = {element};")
            if loads
            else (f"{there} = {here};", f"{element} = {single};")
        )
        return [
            f"if ({inside} && reinterpret_cast<size_t>({address}) % {size} == 0) {{",
            f"  {whole}",
            "} else {",
            *map(indented, self._each(one, [alone])),
            "}",
        ]

    def _with_store(
        self, store: Node, kept: str, part: str, pairs: list[tuple[Node, str]]
    ) -> list[tuple[Node, str]]:
        """`part = kept / b` for `a[i] /= b`, `part = b` for `a[i] = b`."""
        whole = store.parent
        if whole is None or field(whole, "operator").type == "=":
            return [*((n, t) for n, t in pairs if n.id != store.id), (store, part)]
        value = field(whole, "right")
        inside = [(n, t) for n, t in pairs if n.id != store.id and holds(value, n)]
        operator = field(whole, "operator").type.removesuffix("=")
        text = f"{part} = {kept} {operator} {as_operand(substituted(self.view, value, inside), '')}"
        return [*((n, t) for n, t in pairs if not holds(whole, n)), (whole, text)]
