# SPDX-License-Identifier: Apache-2.0
"""Memory that one thread of a group writes and another touches: where the group has to wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import holds, walk
from warplens_tools.cuda.values.writes import changes
from warplens_tools.rewrite.common.counting import LOOPS
from warplens_tools.rewrite.common.iterations import Work
from warplens_tools.rewrite.common.kernel_reader import KernelReader
from warplens_tools.text import Span

_PLACES = frozenset({"subscript_expression", "pointer_expression", "field_expression"})


class Barriers(msgspec.Struct, frozen=True):
    """Statements that the group waits behind, and statements that it waits in front of."""

    behind: tuple[Node, ...] = ()
    before: tuple[Node, ...] = ()


class _Touch(msgspec.Struct, frozen=True):
    """One access to memory."""

    array: str
    at: int
    text: str
    writes: bool
    #: The statement that the group makes it in: a dealt-out loop, or the last of a guarded run; None for one that
    #: all of them make.
    unit: Node | None
    work: Work | None


class Hazards:
    """Finds pairs of accesses of a kernel, at least one a write, that different threads of a group make."""

    def __init__(
        self,
        reader: KernelReader,
        works: Sequence[Work],
        guarded: Sequence[tuple[Node, ...]],
        joined: Sequence[Node],
        rows: frozenset[int],
    ) -> None:
        self.reader, self._works, self._guarded, self._rows = reader, works, guarded, rows
        #: Where a join makes the group wait.
        self._waits = sorted(node.end_byte for node in joined)

    def barriers(self) -> Barriers:
        """Where to wait."""
        touches = list(self._touches())
        written = {t.array for t in touches if t.writes}
        behind: dict[int, Node] = {}
        before: dict[int, Node] = {}
        for first in (t for t in touches if t.array in written):
            for second in touches:
                if not self._meets(first, second):
                    continue
                # a wait behind a loop that comes again is one before it, too
                if first.unit is not None and (first.writes or _is_one_unit(first, second)):
                    behind[first.unit.id] = first.unit
                elif second.unit is not None and not self._waits_between(first, second):
                    head = self._head(second.unit)
                    before[head.id] = head
        return Barriers(tuple(behind.values()), tuple(before.values()))

    def _touches(self) -> Iterator[_Touch]:
        starts: dict[Span, Node] = {}
        for node in walk(self.reader.body):
            if node.type in _PLACES:
                starts.setdefault(self.reader.tree.span(node), node)
        for access in self.reader.accesses:
            place = starts.get(access.span)
            if place is None or access.space in ("local", "constant") or access.atomic:
                continue
            work = next((w for w in self._works if holds(w.loop.node, place)), None)
            run = next((r for r in self._guarded if any(holds(s, place) for s in r)), None)
            unit = work.loop.node if work is not None else run[-1] if run is not None else None
            text = "".join(self.reader.tree.code_of(place).split())
            yield _Touch(access.name, place.start_byte, text, access.writes, unit, work)

    def _meets(self, first: _Touch, second: _Touch) -> bool:
        """Whether `second` may come later, by another thread, to what `first` touched."""
        if first.array != second.array or not (first.writes or second.writes):
            return False
        if first.unit is None and second.unit is None:
            return False
        if _is_one_unit(first, second):
            return (
                first.work is not None and self._comes_again(first) and not self._by_one_thread(first, second)
            )
        lone = (
            first.unit is not None and second.unit is not None and first.work is None and second.work is None
        )
        return not lone and self._comes_later(first, second) and not self._by_one_thread(first, second)

    def _comes_later(self, first: _Touch, second: _Touch) -> bool:
        if second.at > first.at:
            return True
        node: Node | None = self.reader.tree.root.descendant_for_byte_range(first.at, first.at)
        while node is not None and node.id != self.reader.body.id:
            around = node.type in LOOPS and node.start_byte not in self._rows
            if around and node.start_byte <= second.at < node.end_byte:
                return True
            node = node.parent
        return False

    def _comes_again(self, touch: _Touch) -> bool:
        """Whether what the group makes an access in stands in a loop that all of it runs."""
        return any(True for _ in self._around(touch))

    def _around(self, touch: _Touch) -> Iterator[Node]:
        """The loops around what the group makes an access in, but for those that share out the group's own rows."""
        node = touch.unit.parent if touch.unit is not None else None
        while node is not None and node.id != self.reader.body.id:
            if node.type in LOOPS and node.start_byte not in self._rows:
                yield node
            node = node.parent

    def _moves(self, touch: _Touch) -> bool:
        """Whether who has which iteration changes from one round of the loops around to the next."""
        first, code_of = touch.work.loop.first if touch.work is not None else None, self.reader.tree.code_of
        names = {code_of(n) for n in walk(first) if n.type == "identifier"} if first is not None else set()
        return any(
            changes(self.reader.tree, code_of(loop), name) for loop in self._around(touch) for name in names
        )

    def _by_one_thread(self, first: _Touch, second: _Touch) -> bool:
        """Whether two loops, dealt out alike, touch the same element in the same iteration."""
        if first.work is None or second.work is None or first.text != second.text:
            return False
        if self._moves(first) or self._moves(second):
            return False
        code_of = self.reader.tree.code_of
        one, other = (
            (
                "".join(code_of(w.loop.first).split()) if w.loop.first is not None else w.loop.node.id,
                w.loop.step,
                w.loop.downward,
                w.loop.variable,
            )
            for w in (first.work, second.work)
        )
        return one == other

    def _waits_between(self, first: _Touch, second: _Touch) -> bool:
        return any(first.at < wait <= second.at for wait in self._waits)

    def _head(self, unit: Node) -> Node:
        run = next((r for r in self._guarded if r[-1].id == unit.id), None)
        return run[0] if run is not None else unit


def _is_one_unit(first: _Touch, second: _Touch) -> bool:
    return first.unit is not None and second.unit is not None and first.unit.id == second.unit.id
