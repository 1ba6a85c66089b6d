# SPDX-License-Identifier: Apache-2.0
"""What of a loop over a column's outputs is done once for all of them, and what for each.

`for (o …) { y = y0 + o; best = …; for (d …) { cost = 0; <window>; if (cost < best) best = cost; } out[y] = best; }`
becomes `best` for each output, and one loop over `d` with the window of all, and then `if` for each.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, holds, is_looped, walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.counting import counting
from warplens_tools.rewrite.common.declared import Declared, declared_in, plainly_declared_in
from warplens_tools.rewrite.common.reading import View, assigned, field, statements, stores
from warplens_tools.rewrite.common.side_rows import Column, Rows, rows_of

_LEFT = frozenset({"break_statement", "continue_statement"})
_GONE = frozenset({"return_statement", "goto_statement", "labeled_statement"})


class Plain(msgspec.Struct, frozen=True):
    """A statement that is the same for all outputs."""

    node: Node


class Each(msgspec.Struct, frozen=True):
    """Statements for every output, and what they declare."""

    nodes: tuple[Node, ...]
    declared: tuple[Declared, ...]


class Window(msgspec.Struct, frozen=True):
    """The loop over rows of windows."""

    node: Node


class Plan(msgspec.Struct, frozen=True):
    """The parts of a block, in order."""

    parts: tuple[Plain | Each | Window | Inner, ...]


class Inner(msgspec.Struct, frozen=True):
    """A loop that all outputs go through together."""

    node: Node
    plan: Plan


class Planner:
    """Reads the loop over a column's outputs.

    Raises:
        Refused: its windows have no rows in common, or its outputs do not go through the same loops.
    """

    def __init__(self, view: View, column: Column) -> None:
        self.view, self.column = view, column
        every = [d for n in walk(column.loop.body) for d in plainly_declared_in(view, n)]
        self.declared = {d.name: d for d in every}
        self._check(every)
        self._moving = self._moved()
        set_names = {name for name, _ in assigned(column.loop.body, view)}
        made = {
            d.name: d.value
            for d in every
            if d.value is not None
            and d.name in self._moving
            and d.name not in set_names | {column.number.name}
            and not d.stars
        }
        self.rows: Rows = rows_of(view, column, made)
        #: What an output's number is made into before the rows, in order: made again for each row.
        self.again = self._used_in_rows(every, made)
        self._check_folds()
        self.plan = self._plan(list(column.work))
        #: Variables that are kept for each output.
        self.states = frozenset(self._kept(self.plan))

    def _check(self, every: list[Declared]) -> None:
        names = [d.name for d in every]
        if len(names) != len(set(names)):
            raise Refused("two variables of one name would be hard to keep apart")
        for node in walk(self.column.loop.body):
            if node.type in _GONE:
                raise Refused("an output is given up before its end")

    def _moved(self) -> set[str]:
        """Variables that may be other ones for each output."""
        view, moving = self.view, {self.column.number.name, self.column.loop.variable}
        steps = [(name, self._rests_on(place)) for name, place in assigned(self.column.loop.body, view)]
        steps += [(d.name, view.names(d.value)) for d in self.declared.values() if d.value is not None]
        for _ in range(len(steps) + 1):
            more = {name for name, names in steps if names & moving} - moving
            if not more:
                break
            moving |= more
        return moving

    def _rests_on(self, place: Node) -> frozenset[str]:
        """The names of what sets a variable, and of all that decides whether it does."""
        view, node, found = self.view, place.parent, set[str]()
        while node is not None and node.id != self.column.loop.body.id:
            if node.type in ("expression_statement", "for_statement"):
                header = [
                    n for n in node.children if n.id != getattr(node.child_by_field_name("body"), "id", 0)
                ]
                found |= {name for n in header for name in view.names(n)}
            elif node.type in ("if_statement", "while_statement", "do_statement", "switch_statement"):
                found |= view.names(field(node, "condition"))
            node = node.parent
        return frozenset(found)

    def _used_in_rows(self, every: list[Declared], made: dict[str, Node]) -> list[Declared]:
        body = self.rows.loop.body
        needed = set(self.view.names(body)) & made.keys()
        for one in reversed(every):
            if one.name in needed and one.name in made:
                needed |= self.view.names(made[one.name]) & made.keys()
        return [d for d in every if d.name in needed and not holds(body, d.statement)]

    def _check_folds(self) -> None:
        body, again = self.rows.loop.body, {d.name for d in self.again}
        own = {d.name for n in walk(body) for d in plainly_declared_in(self.view, n)}
        folds = {f.name for f in self.rows.folds}
        number = {self.column.number.name}
        others = self.view.names(body) & self._moving - own - folds - again - number
        counters = {
            c.variable
            for n in walk(body)
            if n.type == "for_statement"
            if (c := counting(self.view.expanded, n))
        }
        if others - counters or self.column.loop.variable in self.view.names(body):
            raise Refused("what a window is folded from is another for each output")
        for fold in self.rows.folds:
            one = self.declared.get(fold.name)
            if one is None or one.stars or one.extents:
                raise Refused("what a window is folded into is no variable of the output's own")
            if fold.extreme and (one.value is None or self.view.names(one.value) & self._moving):
                raise Refused("an extreme begins at another value for each output")

    def _plan(self, nodes: list[Node], *, top: bool = True) -> Plan:
        parts, pending = list[Plain | Each | Window | Inner](), list[Node]()

        def flush() -> None:
            if pending:
                parts.append(self._each(tuple(pending)))
                pending.clear()

        done = False
        for node in nodes:
            if node.id == self.rows.loop.node.id:
                flush()
                parts.append(Window(node))
                done = True
            elif holds(node, self.rows.loop.node):
                flush()
                parts.append(self._inner(node))
                done = True
            elif self._is_alike(node):
                flush()
                parts.append(Plain(node))
            else:
                if (not done or not top) and any(
                    self.view.space(e) != "local" for e in stores(self.view, node)
                ):
                    raise Refused("an output is stored before its windows are done")
                pending.append(node)
        flush()
        return Plan(tuple(parts))

    def _inner(self, node: Node) -> Inner:
        loop = counting(self.view.expanded, node) if node.type == "for_statement" else None
        if loop is None:
            raise Refused("a window is not in plain loops alone")
        header = {n for c in node.children if c.id != loop.body.id for n in self.view.names(c)}
        if header & self._moving:
            raise Refused("outputs go through other candidates each")
        return Inner(node, self._plan(statements(loop.body), top=False))

    def _is_alike(self, node: Node) -> bool:
        """Whether a statement does the same for all outputs, and done once does it for all."""
        if any(_is_called_for_effect(n) for n in walk(node)):
            return False
        declares = {d.name for d in plainly_declared_in(self.view, node)}
        stored = any(self.view.space(e) != "local" for e in stores(self.view, node))
        return not stored and not (self.view.names(node) | declares) & self._moving

    def _each(self, nodes: tuple[Node, ...]) -> Each:
        found = list[Declared]()
        for node in nodes:
            if node.type == "declaration":
                found += declared_in(self.view, node)
            looped = node.type in LOOPS
            if any(n.type in _LEFT and not (looped or is_looped(n, node)) for n in walk(node)):
                raise Refused("an output leaves a loop that others go on in")
        return Each(nodes, tuple(found))

    def _kept(self, plan: Plan) -> Iterator[str]:
        for part in plan.parts:
            if isinstance(part, Inner):
                yield from self._kept(part.plan)
            elif isinstance(part, Each):
                yield from (d.name for d in part.declared if self._is_kept(d, part))

    def _is_kept(self, one: Declared, part: Each) -> bool:
        """Whether a variable is used behind the statements that it is declared with."""
        rows, again = self.rows.loop.node, {d.name for d in self.again}
        for use in walk(self.column.loop.body):
            if (
                use.type != "identifier"
                or self.view.code(use) != one.name
                or any(holds(n, use) for n in part.nodes)
            ):
                continue
            if one.name in again and (holds(rows, use) or any(holds(d.statement, use) for d in self.again)):
                continue
            if one.stars:
                raise Refused("a pointer is another for each output")
            return True
        return False


def _is_called_for_effect(node: Node) -> bool:
    """Whether a statement is a call that nothing takes the value of."""
    first = node.named_children[0] if node.type == "expression_statement" and node.named_children else None
    return first is not None and first.type == "call_expression"
