# SPDX-License-Identifier: Apache-2.0
"""Windows whose parts can be folded apart: the rows of two loops that fold, of which the outer one goes along the
outputs' rows, or the elements of one loop that goes along the outputs.
"""

from __future__ import annotations

import re

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, holds, walk
from warplens_tools.cuda.syntax.types import integer_type
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared, declared_in, plainly_declared_in, unqualified
from warplens_tools.rewrite.common.fold_values import check_integer_folds
from warplens_tools.rewrite.common.loop_header import header_of
from warplens_tools.rewrite.common.outputs import Axis, Outputs
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    assigned,
    calls,
    field,
    operator_of,
    statements,
    stores,
    unwrapped,
)
from warplens_tools.rewrite.common.reductions import IDEMPOTENT, NEUTRAL, Fold, folds
from warplens_tools.rewrite.common.thread_forms import places_thread
from warplens_tools.rewrite.common.windows import Shift, Shifter

_EXPRESSIONS = frozenset(
    {"binary_expression", "parenthesized_expression", "unary_expression", "cast_expression", "identifier"}
)


class RowState(msgspec.Struct, frozen=True):
    """A variable that the window is folded into."""

    declared: Declared
    fold: Fold

    @property
    def neutral(self) -> str:
        """What a row's own fold begins at; "" for what the variable itself begins at."""
        return "" if self.fold.operation in IDEMPOTENT else NEUTRAL[self.fold.operation]

    def joined(self, variable: str, value: str) -> str:
        """The statement that folds a row's value into the variable."""
        kind = self.fold.operation
        if self.fold.function:
            return f"{variable} = {self.fold.function}({variable}, {value});"
        if kind in ("max", "min"):
            return f"if ({value} {'>' if kind == 'max' else '<'} {variable}) {variable} = {value};"
        return (
            f"{variable} = {variable} {kind} {value};"
            if kind in ("||", "&&")
            else f"{variable} {kind}= {value};"
        )


class RowFolds(msgspec.Struct, frozen=True):
    """The window of a kernel's outputs."""

    outputs: Outputs
    #: The axis from part to part, along which the window lies.
    down: Axis
    #: The loop over parts: its variable, type, and the value at which the window's foremost part is folded: the first
    #: of `in[i + k]`, the last of `in[i - k]`.
    variable: str
    type: str
    foremost: str
    #: How far its last value is from its first, as text.
    reach: str
    #: What folds one part.
    body: tuple[Node, ...]
    states: tuple[RowState, ...]
    tail: tuple[Node, ...]

    @property
    def is_reordered(self) -> bool:
        """Whether a sum of floating point numbers is added up in another order."""
        return any(
            s.fold.operation in ("+", "*") and integer_type(unqualified(s.declared.type)) is None
            for s in self.states
        )


def read_row_folds(view: View, outputs: Outputs, down: Axis) -> RowFolds:
    """The window along `down` that the kernel folds for each of its outputs.

    Raises:
        Refused: its parts cannot be folded apart.
    """
    if outputs.early or any(not a.limit for a in outputs.axes):
        raise Refused("nothing says up to where its outputs go")
    loop, tail = outputs.work[0], outputs.work[1:]
    if loop.type != "for_statement":
        raise Refused("the work does not begin with a loop")
    _check_plain(view, outputs)
    variable, written, first = header_of(view, outputs, loop)
    _check_signs(view, loop, written, first)
    body = tuple(statements(field(loop, "body")))
    ascends = _ascends(view, outputs, down, loop, variable)
    return RowFolds(
        outputs=outputs,
        down=down,
        variable=variable,
        type=unqualified(written),
        foremost=first if ascends else _last(view, loop),
        reach=_reach(view, loop, first),
        body=body,
        states=_states(view, outputs, loop),
        tail=tail,
    )


def check_rows(view: View, found: RowFolds) -> None:
    """That a part is a row: one loop, as long in every row, and what may stand before it.

    Raises:
        Refused: it is not.
    """
    if not found.body or found.body[-1].type != "for_statement":
        raise Refused("no loop goes through a row")
    before, inner = found.body[:-1], found.body[-1]
    if any(n.type in LOOPS for p in (*before, field(inner, "body")) for n in walk(p)):
        raise Refused("a row is more than one loop")
    names = {s.declared.name for s in found.states}
    for node in before:
        if view.names(node) & names or (any(n.type in JUMPS for n in walk(node)) and not skips(node)):
            raise Refused("a row is more than one loop")
    moving = {found.variable} | _resting(found.outputs, found.down)
    moving |= {d.name for n in before if n.type == "declaration" for d in declared_in(view, n)}
    if any(view.names(field(inner, n)) & moving for n in ("initializer", "condition", "update")):
        raise Refused("its rows differ in length")


def check_elements(found: RowFolds) -> None:
    """That a part is one element: no loop, and nothing that skips it but a statement of its own.

    Raises:
        Refused: it is more.
    """
    for node in found.body:
        looped = any(n.type in LOOPS for n in walk(node))
        if looped or (any(n.type in JUMPS for n in walk(node)) and not skips(node)):
            raise Refused("an element is more than one statement")


def skips(node: Node) -> bool:
    """Whether a statement is `if (…) continue;`."""
    if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
        return False
    inside = statements(field(node, "consequence"))
    return len(inside) == 1 and inside[0].type == "continue_statement"


def _resting(outputs: Outputs, down: Axis) -> set[str]:
    """The names of what is another for each output along the window."""
    return {n for n, on in outputs.rests.items() if down.name in on} | {down.name}


def _check_plain(view: View, outputs: Outputs) -> None:
    code = " ".join(view.code(n) for n in outputs.work)
    if places_thread(code, "".join(a.letter for a in outputs.axes)):
        raise Refused("the work rests on the thread's place in its block")
    loop = outputs.work[0]
    if stores(view, loop) or any(n.startswith(("atomic", "__sh", "__sync")) for n, _ in calls(loop, view)):
        raise Refused("the loop does more than folding")
    jumps = (n for w in outputs.work for n in walk(w) if n.type in JUMPS)
    if any(n.type != "continue_statement" for n in jumps):
        raise Refused("the loop is left early")


def _reach(view: View, loop: Node, first: str) -> str:
    condition = field(loop, "condition")
    last = view.written(unwrapped(field(condition, "right")))
    plain = re.fullmatch(r"[\w.]+", last)
    if re.fullmatch(r"0[uUlL]*", first):
        whole = last if plain else f"({last})"
    elif plain and first.replace(" ", "") == f"-{last}":
        whole = f"2 * {last}"
    else:
        whole = f"({last}) - ({first})"
    return whole if operator_of(condition) == "<=" else f"{whole} - 1"


def _check_signs(view: View, loop: Node, written: str, first: str) -> None:
    """That the loop runs as often as its bounds say: `-2 <= radius` of an unsigned radius is never true."""
    if re.fullmatch(r"\d+[uUlL]*", first):
        return
    types = {p.name: p.type for p in view.kernel.parameters if not p.pointer}
    for node in walk(view.body):
        if node.type == "declaration":
            types |= {d.name: d.type for d in plainly_declared_in(view, node)}
    right = field(field(loop, "condition"), "right")
    for kind in (written, *(types.get(name, "int") for name in view.names(right))):
        known = integer_type(view.concrete(unqualified(kind)))
        if known is not None and not known.signed and known.bytes >= 4:
            raise Refused("its loop compares unsigned numbers")
    if re.search(r"\b\d+[lL]*[uU]|\bsizeof\b|blockDim|gridDim", view.code(right)):
        raise Refused("its loop compares unsigned numbers")


def _last(view: View, loop: Node) -> str:
    condition = field(loop, "condition")
    last = view.written(unwrapped(field(condition, "right")))
    if operator_of(condition) == "<=":
        return last
    return f"{last} - 1" if re.fullmatch(r"[\w.]+", last) else f"({last}) - 1"


def _states(view: View, outputs: Outputs, loop: Node) -> tuple[RowState, ...]:
    changed = {name for name, _ in assigned(loop, view)}
    listed = [d for d in outputs.declared if d.name in changed]
    every = list(folds(view.tree, loop))
    found = []
    for one in listed:
        mine = [f for f in every if f.place == one.name]
        own = {i for f in mine for i in f.own}
        uses = {n.id for n in walk(loop) if n.type == "identifier" and view.code(n) == one.name}
        if uses != own or len({(f.operation, f.function) for f in mine}) != 1 or one.stars:
            raise Refused("the loop does more than folding")
        if mine[0].operation not in IDEMPOTENT | set(NEUTRAL) or mine[0].companion:
            raise Refused("the loop folds in a way that is not understood")
        state = RowState(one, mine[0])
        for fold in mine:
            check_integer_folds(view.kernel, view.tree, view.body, fold, unqualified(one.type), view.concrete)
        if one.value is None or (not state.neutral and not _is_fixed(view, outputs, one.value)):
            raise Refused("what a fold begins at is another for each output")
        found.append(state)
    own_names = {d.name for n in walk(loop) if n.type == "declaration" for d in declared_in(view, n)}
    if not found or changed - {d.name for d in listed} - own_names:
        raise Refused("the loop does more than folding")
    return tuple(found)


def _is_fixed(view: View, outputs: Outputs, value: Node) -> bool:
    return not outputs.resting(view.names(value)) and not any(view.elements(value))


def _ascends(view: View, outputs: Outputs, down: Axis, loop: Node, variable: str) -> bool:
    """Whether the window's next part is that of the next output (else, of the one before).

    Raises:
        Refused: a part is not the same for every window that holds it.
    """
    counter, shifter = view.forms.loop(loop).counter, Shifter()
    moving = {variable} | _resting(outputs, down)
    parts = statements(field(loop, "body"))
    names = [(p, n) for p in parts for n in walk(p) if n.type == "identifier" and view.code(n) in moving]
    for step in (1, -1) if counter else ():
        further = (step, 0) if down.letter == "x" else (0, step)
        if all(_is_same(view, shifter, n, p, counter, further) for p, n in names):
            return step > 0
    raise Refused("what a window is folded from is another for each output")


def _is_same(view: View, shifter: Shifter, node: Node, part: Node, counter: str, further: Shift) -> bool:
    """Whether a name stands in an integer that is the same for the next output in the part before."""
    at: Node | None = node
    while at is not None and holds(part, at):
        form = view.forms.form(at) if at.type in _EXPRESSIONS or at.type == "call_expression" else None
        if form is not None and shifter.is_shifted(form, form, further, counter):
            return True
        if at.type not in _EXPRESSIONS | {"argument_list", "call_expression"}:
            return False
        at = at.parent
    return False
