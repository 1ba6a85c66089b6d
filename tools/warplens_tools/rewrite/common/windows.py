# SPDX-License-Identifier: Apache-2.0
"""Accesses that are one another's neighbours: how far each is shifted, along the axes of the outputs.

`in[(y + j) * w + x + i]` is `in[y * w + x]` shifted by i and j, also where the indices are clamped. Whether one form
is another shifted is tried on numbers, in and out of every bound.
"""

from __future__ import annotations

import itertools
import random
import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS
from warplens_tools.cuda.values.forms import Form
from warplens_tools.cuda.values.loop_headers import Loop
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import plainly_declared_in
from warplens_tools.rewrite.common.reading import WORD, View, field, statements, substituted
from warplens_tools.rewrite.common.zeros import zero_is_neutral

#: How far constant shifts are looked for, and on how many draws of numbers two forms must agree.
_FURTHEST, _DRAWS = 8, 24

Shift = tuple[int, int]


class Access(msgspec.Struct, frozen=True):
    """One access of the window: the shift of its first iteration, and what each loop around it adds."""

    node: Node
    shift: Shift
    #: Each loop with its variable, first value, iterations, and the shift from one to the next.
    loops: tuple[tuple[Loop, Shift], ...]

    def range(self, axis: int) -> tuple[int, int]:
        """The least and the greatest shift along an axis."""
        low = high = self.shift[axis]
        for loop, step in self.loops:
            last = step[axis] * ((loop.trips or 1) - 1)
            low, high = low + min(last, 0), high + max(last, 0)
        return low, high


class Shifter:
    """Tries shifts of forms along the launch's axes."""

    def __init__(self, seed: int = 1) -> None:
        self.draw = random.Random(seed)

    def _values(self, names: frozenset[str]) -> dict[str, int]:
        values = {name: self.draw.randint(2, 40) for name in sorted(names)}
        for axis in "xyz":
            values[f"blockIdx.{axis}"], values[f"blockDim.{axis}"] = self.draw.randint(0, 1), 32
            values[f"threadIdx.{axis}"] = self.draw.randint(0, 31)
        for name in names:
            if "@" in name:
                values[name] = self.draw.randint(0, 3)
        return values

    def is_shifted(self, one: Form, other: Form, by: Shift, counter: str = "") -> bool:
        """Whether `other` (with `counter` one further) is `one`, shifted."""
        names = frozenset(s.name for form in (one, other) for s in form.symbols if s.kind != "derived")
        for _ in range(_DRAWS):
            values = self._values(names)
            moved = dict(values)
            moved["threadIdx.x"] += by[0]
            moved["threadIdx.y"] += by[1]
            if counter:
                values[counter] = values.get(counter, 0) + 1
            a, b = one.evaluate(moved), other.evaluate(values)
            if a is None or a != b:
                return False
        return True

    def find(self, one: Form, other: Form, furthest: int, axes: int, counter: str = "") -> Shift | None:
        """The shift that makes `other` of `one`; None for none."""
        reach = range(-furthest, furthest + 1)
        every = sorted(
            itertools.product(reach, reach if axes > 1 else (0,)), key=lambda s: abs(s[0]) + abs(s[1])
        )
        return next((s for s in every if self.is_shifted(one, other, s, counter)), None)


def read_window(view: View, nodes: list[Node], axes: int) -> tuple[Access, ...]:
    """The accesses of one array as shifts of the first of them.

    Raises:
        Refused: they are no window around the thread's output.
    """
    shifter, found = Shifter(), list[Access]()
    forms = [_first(view, n) for n in nodes]
    for node, form in zip(nodes, forms, strict=True):
        whole = _form(view, node)
        loops = [view.forms.loop(n) for n in _loops(view, node)]
        steps = []
        for loop in loops:
            if not whole.mentions(loop.counter):
                continue
            step = shifter.find(whole, whole, 2, axes, loop.counter) if loop.trips and loop.counter else None
            if step is None or loop.first is None or loop.first.value is None or loop.step is None:
                raise Refused("a loop does not walk a window of constant size")
            if loop.step.value != 1:
                raise Refused("a loop does not walk its window one by one")
            steps.append((loop, step))
        shift = shifter.find(forms[0], form, _FURTHEST, axes)
        if shift is None:
            raise Refused("what it reads is no window around the thread's output")
        found.append(Access(node, shift, tuple(steps)))
    return tuple(found)


def _form(view: View, node: Node) -> Form:
    place = view.place(node)
    if place is None or place.offset is None:
        raise Refused("an index is not understood")
    return place.offset


def _first(view: View, node: Node) -> Form:
    """The index in the first iteration of the loops around it."""
    form = _form(view, node)
    counters = {loop.counter for loop in (view.forms.loop(n) for n in _loops(view, node)) if loop.counter}
    return _at_zero(form, counters)


def _at_zero(form: Form, counters: set[str]) -> Form:
    kept = []
    for symbols, factor in form.terms:
        if any(s.name in counters for s in symbols):
            continue
        new = tuple(
            msgspec.structs.replace(s, operands=tuple(_at_zero(o, counters) for o in s.operands))
            if s.operands
            else s
            for s in symbols
        )
        kept.append((new, factor))
    return Form(tuple(kept))


def _loops(view: View, node: Node) -> list[Node]:
    found, outer = [], node.parent
    while outer is not None and outer.start_byte >= view.body.start_byte:
        if outer.type in LOOPS:
            found.append(outer)
        outer = outer.parent
    return found[::-1]


def padded(view: View, window: tuple[Access, ...]) -> Node | None:
    """`if (inside) sum += a[i] * w;` around the one access, which adds nothing where the element is zero."""
    outer = window[0].node.parent
    while outer is not None and outer.type not in ("if_statement", "for_statement", "function_definition"):
        outer = outer.parent
    if len(window) != 1 or outer is None or outer.type != "if_statement":
        return None
    inside = statements(field(outer, "consequence"))
    if outer.child_by_field_name("alternative") is not None or len(inside) != 1:
        return None
    return outer if zero_is_neutral(view, inside, {window[0].node.id}) else None


def without(view: View, node: Node, test: Node, text: str) -> str:
    """A node's text with `text` for a condition below it, and without what was declared for that condition alone."""
    block, found = test.parent, [(test, text)]
    for one in block.named_children if block is not None and block.type == "compound_statement" else ():
        names = {d.name for d in plainly_declared_in(view, one)}
        others = (
            [n for n in block.named_children if n.id not in (one.id, test.id)] if block is not None else []
        )
        used = frozenset(WORD.findall(text)).union(*(view.names(n) for n in others))
        if names and one.end_byte <= test.start_byte and not names & used:
            found.append((one, ""))
    written = substituted(view, node, found)
    return re.sub(r"\n[ \t]*(?=\r?\n)", "", written) if len(found) > 1 else written
