# SPDX-License-Identifier: Apache-2.0
"""A loop over outputs of a column, and the loop over the rows of their windows inside it.

`for (o = 0; o < N; ++o) { int y = y0 + o; … for (j = -R; j <= R; ++j) { …; sum += …; } … out[y * w + x] = sum; }`
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, holds, is_looped, walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.counting import Counting, counting
from warplens_tools.rewrite.common.declared import Declared, plainly_declared_in
from warplens_tools.rewrite.common.reading import View, assigned, field, operator_of, statements, unwrapped
from warplens_tools.rewrite.common.shifted import is_same_row

#: Rows of a window that are written out, each for a step of its own.
_ROWS = range(2, 33)
_EXTREMES = ("fminf", "fmaxf", "fmin", "fmax", "min", "max", "std::min", "std::max")


class Column(msgspec.Struct, frozen=True):
    """The loop over outputs: its counter and how many there are, the output's number and the first one's."""

    loop: Counting
    count: str
    number: Declared
    first: str
    work: tuple[Node, ...]


class Fold(msgspec.Struct, frozen=True):
    """A variable that a window's elements are folded into: added, or by a function of which the order is free."""

    name: str
    #: "" for a sum.
    extreme: str

    def joined(self, target: str, value: str) -> str:
        """The statement that folds a value into a variable."""
        return f"{target} = {self.extreme}({target}, {value});" if self.extreme else f"{target} += {value};"


class Rows(msgspec.Struct, frozen=True):
    """The loop over a window's rows."""

    loop: Counting
    #: How many rows there are after the first, and where they begin, as written.
    reach: str
    begin: str
    folds: tuple[Fold, ...]


def column_of(view: View) -> Column:
    """The first loop over outputs of a column.

    Raises:
        Refused: there is none.
    """
    for node in walk(view.body):
        loop = counting(view.expanded, node) if node.type == "for_statement" else None
        if loop is None or loop.step != "1" or loop.first is None or view.value(loop.first) != 0:
            continue
        inside = statements(loop.body)
        named = plainly_declared_in(view, inside[0]) if inside else []
        value = named[0].value if len(named) == 1 else None
        if value is None or value.type != "binary_expression" or operator_of(value) != "+":
            continue
        first, last = value.named_children[0], value.named_children[-1]
        if first.type == "identifier" and view.code(last) == loop.variable:
            count = view.written(loop.bounds[0])
            return Column(loop, count, named[0], view.code(first), tuple(inside[1:]))
    raise Refused("no loop works out several outputs of a column")


def rows_of(view: View, column: Column, values: dict[str, Node]) -> Rows:
    """The loop over the rows of windows that the outputs of a column have in common. `values` are what variables of an
    output's are made of.

    Raises:
        Refused: there is none.
    """
    inside = {n.id for n in walk(column.loop.body)}
    why = "no loop walks the rows of a window of constant size"
    for node in walk(column.loop.body):
        loop = counting(view.expanded, node) if node.type == "for_statement" and node.id in inside else None
        trips = view.forms.loop(node).trips if loop is not None else None
        if loop is None or trips not in _ROWS or loop.step != "1" or loop.downward or loop.first is None:
            continue
        if not any(n.type in LOOPS for n in walk(loop.body)):
            continue
        try:
            return _rows(view, column, loop, loop.first, values)
        except Refused as refused:
            why = str(refused)
    raise Refused(why)


def _rows(view: View, column: Column, loop: Counting, first: Node, values: dict[str, Node]) -> Rows:
    own = {d.name for n in walk(loop.body) for d in plainly_declared_in(view, n)}
    folds = list(_folds(view, loop, own))
    if not folds:
        raise Refused("a window is folded into nothing")
    if any(n.type in ("break_statement", "return_statement", "goto_statement") for n in walk(loop.body)):
        raise Refused("the loop over a window is left early")
    if any(n.type == "continue_statement" and not is_looped(n, loop.body) for n in walk(loop.body)):
        raise Refused("the loop over a window leaves rows out")
    made = {name: node for name, node in values.items() if name not in own}
    if not is_same_row(view.tree, [loop.body], column.number.name, loop.variable, made):
        raise Refused("what a window is folded from is another for each output")
    begin, bound = view.written(first), view.written(loop.bounds[0])
    condition = unwrapped(field(loop.node, "condition"))
    closed = operator_of(condition) == "<="
    fixed = [first, loop.bounds[0]]
    if any(view.names(n) & view.parameters or view.value(n) is None for n in fixed):
        raise Refused("a window's size is known only when the program runs")
    return Rows(loop, _reach(begin, bound, closed=closed), begin, tuple(folds))


def _reach(begin: str, bound: str, *, closed: bool) -> str:
    """How many rows there are after the first."""
    end = bound if closed else str(int(bound) - 1) if bound.isdigit() else f"{bound} - 1"
    if begin == "0":
        return end
    if begin == f"-{bound}" and closed:
        return f"2 * {bound}"
    return f"{end} - ({begin})"


def _folds(view: View, loop: Counting, own: set[str]) -> Iterator[Fold]:
    """What the rows are folded into, each by one statement, and nothing else that is set."""
    inner = {d for n in walk(loop.body) if n.type == "for_statement" if (d := _counter(view, n))}
    for name, place in assigned(loop.body, view):
        if name in own | inner:
            continue
        uses = [n for n in walk(loop.body) if n.type == "identifier" and view.code(n) == name]
        step = place.parent
        if place.type != "identifier" or step is None or step.type != "assignment_expression":
            raise Refused("a window's loop sets more than what it is folded into")
        inside = [n for n in uses if holds(step, n)]
        if len(inside) != len(uses):
            raise Refused("what a window is folded into is read in its loop")
        if operator_of(step) == "+=" and len(uses) == 1:
            yield Fold(name, "")
        elif operator_of(step) == "=" and len(uses) == len(inside) and (called := _extreme(view, step, name)):
            yield Fold(name, called)
        else:
            raise Refused("what a window is folded into is neither a sum nor an extreme")


def _counter(view: View, node: Node) -> str:
    found = counting(view.expanded, node)
    return found.variable if found is not None and found.declared else ""


def _extreme(view: View, step: Node, name: str) -> str:
    """The function of `least = fminf(least, value)`; "" for anything else."""
    call = field(step, "right")
    if call.type != "call_expression" or view.code(field(call, "function")) not in _EXTREMES:
        return ""
    given = field(call, "arguments").named_children
    mine = [n for n in given if view.code(n) == name]
    used = [n for n in walk(call) if n.type == "identifier" and view.code(n) == name]
    return view.written(field(call, "function")) if len(given) == 2 and len(mine) == len(used) == 1 else ""
