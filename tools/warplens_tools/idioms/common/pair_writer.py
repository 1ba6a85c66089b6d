# SPDX-License-Identifier: Apache-2.0
"""Writes a walk over others for each item anew: tiles of both, a block of pairs a thread, and what an item's threads
found joined in the end.
"""

from __future__ import annotations

import msgspec

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.cuda.syntax.types import type_bytes
from warplens_tools.idioms.common.product_writer import ProductWriter, VectorSide
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared, declared_in, unqualified
from warplens_tools.rewrite.common.fold_values import check_integer_folds
from warplens_tools.rewrite.common.groups import best_lines, joined_value
from warplens_tools.rewrite.common.item_pairs import ItemPairs, stores_pairs
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.operand_tiles import State
from warplens_tools.rewrite.common.reading import View, assigned, field, renamed, unwrapped
from warplens_tools.rewrite.common.reductions import IDEMPOTENT, NEUTRAL, Fold, folds
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.style import guarded, indented
from warplens_tools.rewrite.common.tile_sides import Shape, Side
from warplens_tools.rewrite.common.tile_writer import TileWriter

#: 64 items and 128 others of a block; a thread has 4 by 8 pairs, and what it found for each of its items.
SHAPE = Shape(threads=(16, 16), outputs=(8, 4), depth=16, name="Pair")
_WORDS = (4, 8)


class PairWriter(ProductWriter):
    """The new text of one kernel, and of its launches.

    Raises:
        Refused: what lives through the walk is no fold of its pairs, or as `ProductWriter`.
    """

    def __init__(self, view: View, pairs: ItemPairs, launches: Launches) -> None:
        self.pairs = pairs
        self.folds = read_folds(view, pairs)
        super().__init__(view, pairs.product, launches, SHAPE)
        self.offset = self.style.local("offset")

    def _sides(self) -> list[Side]:
        found, named = list[Side](), self.style
        for index, axis in enumerate((self.pairs.other, self.pairs.item)):
            letter = "XY"[index]
            threads = named.constant(
                f"kPairThreads{letter}",
                str(self.shape.threads[index]),
                f"threads of a block along {axis.name}",
            )
            outputs = named.constant(
                f"kPairOutputs{letter}",
                str(self.shape.outputs[index]),
                f"values of {axis.name} that a thread has",
            )
            tile = named.constant(f"kPairTile{letter}", f"{threads} * {outputs}")
            first, counter = named.local(f"{axis.name}0"), named.local("ji"[index])
            found.append(
                VectorSide(
                    axis, letter.lower(), axis.limit, threads, outputs, tile, first, counter, self.wide
                )
            )
        return found

    def _relaunch(self) -> None:
        if self.pairs.item.letter != "x":
            raise Refused("its items are not numbered along x")
        item = self.rows
        for launch in self.launches.read():
            limit = host_text(self.view, self.launches, launch, item.limit)
            self.launches.set(launch.grid, {0: f"({limit} + {item.tile} - 1) / {item.tile}"})
            self.launches.set(launch.block, {0: self.columns.threads, 1: item.threads})

    def _body(self) -> str:
        item, other = self.rows, self.columns
        head = [self._kept(d) for d in self.outputs.declared if self._is_uniform(d)]
        head += [f"if (!({c})) return;" for c in self.outputs.uniform]
        head.append(f"const int {self.thread} = threadIdx.y * {other.threads} + threadIdx.x;")
        head.append(f"const {unqualified(item.axis.type)} {item.first} = blockIdx.x * {item.tile};")
        for one in self.pairs.kept:
            head += self._state(State(one, frozenset({item.axis.name})))
        condition = renamed(self.view.written(self.pairs.condition), {other.axis.name: other.first})
        kind = unqualified(self.pairs.type)
        start = (
            f"for ({kind} {other.first} = {self.pairs.first}; {condition}; {other.first} += {other.tile}) {{"
        )
        inner = "\n".join(p for p in (self._states(), self._loop(), TileWriter._tail(self)) if p)
        parts = [self._shared(), "\n".join(head), start, indented(inner), "}", self._joined(), self._behind()]
        return "\n".join(p for p in parts if p)

    def _instances(self) -> dict[str, str]:
        found = super()._instances()
        return found | {d.name: f"{d.name}[{self.rows.counter}]" for d in self.pairs.kept}

    def _joined(self) -> str:
        """What each item's threads found, in all of them."""
        kinds = {d.name: unqualified(d.type) for d in self.pairs.kept}
        own, lines = self._instances(), list[str]()
        for fold in self.folds:
            mine = msgspec.structs.replace(fold, place=own[fold.place], companion=own.get(fold.companion, ""))
            kind = kinds[fold.place]
            if fold.operation == "best":
                lines += best_lines(mine, kind, kinds[fold.companion], "  ")
            else:
                other = f"__shfl_xor_sync(0xffffffff, {mine.place}, {self.offset})"
                lines.append(f"{mine.place} = {joined_value(mine, kind, mine.place, other)};")
        lines = [renamed(line, {"offset": self.offset}) for line in lines]
        o = self.offset
        head = f"for (int {o} = {self.columns.threads} / 2; {o} > 0; {o} /= 2) {{"
        return self._each("\n".join([head, *map(indented, lines), "}"]), [self.rows])

    def _behind(self) -> str:
        """What follows the walk: by one of an item's threads."""
        item, nodes = self.rows, self.pairs.after
        if not nodes:
            return ""
        names = frozenset[str]().union(*(self.view.names(n) for n in nodes))
        own = {d.name for n in nodes if n.type == "declaration" for d in declared_in(self.view, n)}
        text = [self.style.code(renamed(self.view.written(n), self._instances())) for n in nodes]
        head = self._declarations(names - own - {self.columns.axis.name}, {item.axis.name})
        test = f"threadIdx.x == 0 && {item.axis.name} < {item.limit}"
        # what was stored for pairs, other threads of the item stored
        seen = "__syncthreads();\n" if stores_pairs(self.view, self.pairs) else ""
        return seen + self._each("\n".join([*head, guarded(test, text)]), [item])


def read_folds(view: View, pairs: ItemPairs) -> tuple[Fold, ...]:
    """How what lives through the walk is folded from pairs, each variable once, the place of a best one with it.

    Raises:
        Refused: one of them is more than folded.
    """
    tail, kept = pairs.product.tail, {d.name: d for d in pairs.kept}
    every = [f for n in tail for f in folds(view.tree, n)]
    found, known = list[Fold](), set[str]()
    for fold in every:
        if fold.place in kept and fold.place not in known:
            known |= {fold.place, fold.companion} - {""}
            found.append(fold)
    if known != set(kept):
        raise Refused("what lives through the walk is no fold of its pairs")
    for fold in found:
        _check(view, pairs, fold, [f for f in every if f.place == fold.place], kept)
    return tuple(found)


def _check(view: View, pairs: ItemPairs, fold: Fold, alike: list[Fold], kept: dict[str, Declared]) -> None:
    names = {fold.place, fold.companion} - {""}
    uses = {n.id for t in pairs.product.tail for n in walk(t) if view.code(n) in names}
    uses = {n.id for t in pairs.product.tail for n in walk(t) if n.type == "identifier" and n.id in uses}
    own = {i for f in alike for i in f.own}
    places = [
        n
        for t in pairs.product.tail
        for name, n in assigned(t, view)
        if fold.companion and name == fold.companion
    ]
    if len({(f.operation, f.function, f.companion) for f in alike}) != 1:
        raise Refused("what lives through the walk is folded in several ways")
    if not uses <= own | {n.id for n in places}:
        raise Refused("a fold of the walk is used before it is there")
    if fold.operation not in IDEMPOTENT and fold.operation not in NEUTRAL:
        raise Refused("the walk folds in a way that is not understood")
    for name in names:
        one = kept[name]
        size = type_bytes(view.concrete(unqualified(one.type)))
        if one.stars or one.value is None or size not in _WORDS:
            raise Refused("what is folded is no plain number")
    begun = kept[fold.place].value
    if fold.operation not in IDEMPOTENT and (
        begun is None or view.code(unwrapped(begun)).rstrip("fFlLuU").rstrip("0").rstrip(".") not in ("", "0")
    ):
        raise Refused("a sum begins at something else than nothing")
    for place in places:
        whole = place.parent
        value = unwrapped(field(whole, "right")) if whole is not None else None
        if value is None or view.code(value) != pairs.other.name:
            raise Refused("what goes along with the best is not which one it is")
    written = unqualified(kept[fold.place].type)
    for node in pairs.product.tail:
        check_integer_folds(view.kernel, view.tree, node, fold, written, view.concrete)
