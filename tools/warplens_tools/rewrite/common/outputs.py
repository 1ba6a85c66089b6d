# SPDX-License-Identifier: Apache-2.0
"""Kernels in which one thread computes one output: which variables say which, their limits, what rests on them.

`int row = …, col = …; if (row < M && col < N) { … }` is read into its axes (`row` up to `M`, `col` up to
`N`), what is declared besides, and the statements that do the work.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.model import LaunchSite
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared, declared_in
from warplens_tools.rewrite.common.kernel_reader import ATOMIC
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.output_limits import limit_by, negation, order_of, returns
from warplens_tools.rewrite.common.reading import (
    WORD,
    View,
    calls,
    field,
    operator_of,
    squeezed,
    statements,
    unwrapped,
)
from warplens_tools.rewrite.common.thread_forms import axis_letter, is_grids, places_thread

#: A condition with any of these may ask the data.
_BY_DATA = frozenset(
    {"subscript_expression", "pointer_expression", "call_expression", "assignment_expression"}
)
#: What a name rests on beyond axes: a thread's or block's own number.
THREAD = "threadIdx"


class Axis(msgspec.Struct, frozen=True):
    """A variable that numbers outputs: one thread has one value of it."""

    name: str
    type: str
    #: "x" or "y": the axis of the launch; "" for one that is divided out of another.
    letter: str
    #: It runs below this expression of the kernel's; "" where nothing says so.
    limit: str = ""
    #: Its first value.
    offset: int = 0
    #: What it is initialised with, as written; "" for one that is divided out of another.
    value: str = ""
    #: Where that stands.
    at: int = 0


class Outputs(msgspec.Struct, frozen=True):
    """What a kernel's text says before its work, and its work."""

    #: The fastest axis of the launch first.
    axes: tuple[Axis, ...]
    declared: tuple[Declared, ...]
    #: Conditions for the work that rest on no axis, as written.
    uniform: tuple[str, ...]
    #: Conditions that rest on axes beyond their limits, as written.
    others: tuple[str, ...]
    work: tuple[Node, ...]
    #: `if (…) { …; return; }` before the work: outputs that need none of it.
    early: tuple[Node, ...]
    #: What each declared name rests on: names of axes, `THREAD`.
    rests: dict[str, frozenset[str]]

    def resting(self, names: frozenset[str]) -> frozenset[str]:
        """The axes (and `THREAD`) that an expression of these names rests on."""
        return frozenset(itertools.chain.from_iterable(self.rests.get(n, ()) for n in names))


class _Head(msgspec.Struct):
    declared: list[Declared]
    conditions: list[Node]
    work: list[Node]
    early: list[Node]


def launched_outputs(view: View, *, strided: bool = False) -> tuple[Launches, Outputs]:
    """The kernel's launches, and its outputs as the first of them numbers them.

    `strided`: also those of threads that stride over them by the grid, for who makes a grid by their limits.

    Raises:
        Refused: as `Launches.read` and `read_outputs`.
    """
    launches = Launches(view.text, view.model, view.kernel)
    return launches, read_outputs(view, launches.read()[0].site, strided=strided)


def read_outputs(view: View, site: LaunchSite | None, *, strided: bool = False) -> Outputs:
    """The kernel's outputs. `strided`: loops over them by the grid are read as if they ended after one.

    Raises:
        Refused: the text before the work is none of declarations and limits.
    """
    head = _head(view, site if strided else None)
    axes, rests = _axes(view, head, site)
    rows = _rows(view, head, axes)
    limits, uniform, others = _conditions(view, head, rows | {a.name for a in axes}, rests)
    launched, axes = axes, _divided(view, head, axes, limits)
    others += [f"{n} < {limits[n]}" for n in rows & set(limits) - {a.name for a in axes}]
    if {a.name for a in launched} != {a.name for a in axes}:
        _join(head, launched[0], axes)
        rests.pop(launched[0].name)
    for axis in axes:
        rests[axis.name] = frozenset({axis.name})
    _spread(view, head, rests, axes)
    return Outputs(
        tuple(sorted(axes, key=lambda a: a.letter)),
        tuple(d for d in head.declared if d.name not in {a.name for a in axes}),
        tuple(uniform),
        tuple(others),
        tuple(head.work),
        tuple(head.early),
        rests,
    )


def _head(view: View, site: LaunchSite | None) -> _Head:
    """`site`: a launch, where loops over outputs by the grid are opened."""
    head = _Head([], [], [], [])
    rest = statements(view.body)
    while rest:
        first = rest[0]
        if first.type == "declaration" and not _counts(view, first) and not is_array(view, first):
            head.declared += declared_in(view, first)
            rest = rest[1:]
            continue
        if _is_early(first) and len(rest) > 1:
            head.early.append(first)
            rest = rest[1:]
            continue
        opened = _strided(view, first, site) if site is not None and len(rest) == 1 else None
        if opened is not None:
            head.declared += opened
            head.conditions.append(unwrapped(field(first, "condition")))
            rest = statements(field(first, "body"))
            continue
        guard = _guard(first, last=len(rest) == 1)
        if guard is None:
            break
        head.conditions += guard[0]
        rest = guard[1] if guard[1] is not None else rest[1:]
    head.work = rest
    if not rest:
        raise Refused("the kernel does no work that is understood")
    return head


def _counts(view: View, declaration: Node) -> bool:
    """Whether what it declares is counted in memory: `int at = atomicAdd(count, 1);` is done once, where it stands."""
    return any(ATOMIC.fullmatch(name.split("<")[0]) for name, _ in calls(declaration, view))


def is_array(view: View, declaration: Node) -> bool:
    """Whether it declares an array of the thread's own, as the weights of a filter: a part of the work."""
    declarators = declaration.children_by_field_name("declarator")
    inner = [d.child_by_field_name("declarator") if d.type == "init_declarator" else d for d in declarators]
    own = not re.search(r"\b__shared__\b", view.code(declaration))
    return own and any(d is not None and d.type == "array_declarator" for d in inner)


def _strided(view: View, loop: Node, site: LaunchSite) -> list[Declared] | None:
    """What a loop over outputs by the grid begins with; None for any other statement."""
    initial = loop.child_by_field_name("initializer") if loop.type == "for_statement" else None
    if initial is None or initial.type != "declaration":
        return None
    found, step = declared_in(view, initial), view.forms.loop(loop).step
    form = view.forms.form(found[0].value) if len(found) == 1 and found[0].value is not None else None
    letter = axis_letter(form, site)
    if not letter or step is None or not is_grids(step, letter, site.block_value["xyz".index(letter)]):
        return None
    return found if not any(_leaves(n, loop) for n in walk(loop)) else None


def _leaves(node: Node, loop: Node) -> bool:
    """Whether a jump ends this loop or its iteration."""
    at = node.parent
    while at is not None and at.type not in ("for_statement", "while_statement", "do_statement"):
        at = at.parent
    return node.type in ("continue_statement", "break_statement") and at is not None and at.id == loop.id


def _is_early(node: Node) -> bool:
    """Whether a statement gives some outputs their value and returns."""
    if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
        return False
    inside = statements(field(node, "consequence"))
    return len(inside) > 1 and inside[-1].type == "return_statement"


def _guard(node: Node, *, last: bool) -> tuple[list[Node], list[Node] | None] | None:
    """The conditions of `if (row >= M) return;` or of `if (row < M) { … }`, and the statements inside."""
    if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
        return None
    inside = statements(field(node, "consequence"))
    condition = unwrapped(field(node, "condition"))
    if any(n.type in _BY_DATA for n in walk(condition)):
        return None
    if len(inside) == 1 and inside[0].type == "return_statement":
        return _parts(condition, "||"), None
    return (_parts(condition, "&&"), inside) if last else None


def _parts(node: Node, joined: str) -> list[Node]:
    node = unwrapped(node)
    if node.type == "binary_expression" and operator_of(node) == joined:
        return [*_parts(field(node, "left"), joined), *_parts(field(node, "right"), joined)]
    return [node]


def _axes(view: View, head: _Head, site: LaunchSite | None) -> tuple[list[Axis], dict[str, frozenset[str]]]:
    axes: list[Axis] = []
    rests: dict[str, frozenset[str]] = {}
    for one in head.declared:
        letter = axis_letter(view.forms.form(one.value), site) if one.value is not None else ""
        if letter and letter not in {a.letter for a in axes} and not one.stars:
            form = view.forms.form(one.value)
            offset = form.constant if form is not None else 0
            written, at = (
                (view.written(one.value), one.value.start_byte) if one.value is not None else ("", 0)
            )
            axes.append(Axis(one.name, one.type, letter, offset=offset, value=written, at=at))
            rests[one.name] = frozenset({one.name})
    _spread(view, head, rests, axes)
    return axes, rests


def _spread(view: View, head: _Head, rests: dict[str, frozenset[str]], axes: list[Axis]) -> None:
    names_of_axes, letters = {a.name for a in axes}, "".join(a.letter for a in axes) or "x"
    for one in head.declared:
        if one.name in names_of_axes:
            continue
        names = view.names(one.value) if one.value is not None else frozenset(WORD.findall(one.text))
        found = frozenset(itertools.chain.from_iterable(rests.get(n, ()) for n in names))
        code = view.code(one.value) if one.value is not None else ""
        rests[one.name] = found | (frozenset({THREAD}) if places_thread(code, letters) else frozenset())


def _conditions(
    view: View, head: _Head, names: set[str], rests: dict[str, frozenset[str]]
) -> tuple[dict[str, str], list[str], list[str]]:
    """What `names` run up to, further conditions that rest on no axis, and those that do."""
    limits: dict[str, str] = {}
    uniform: list[str] = []
    others: list[str] = []
    ordered: list[tuple[str, str]] = []
    for node in head.conditions:
        ordered += order_of(view, node, names)
        found = limit_by(view, node, names)
        moves = found is not None and any(rests.get(w) for w in WORD.findall(found[1]))
        if found is not None and found[0] not in limits and not moves:
            limits[found[0]] = found[1]
            continue
        negated = returns(node)
        written = negation(view, node) if negated else view.written(node)
        on = frozenset(itertools.chain.from_iterable(rests.get(n, ()) for n in view.names(node)))
        if THREAD in on or "threadIdx" in written:
            raise Refused("a condition chooses threads by their place in the block")
        (others if on else uniform).append(written)
    for less, more in ordered:
        if more in limits:
            limits.setdefault(less, limits[more])
    return limits, uniform, others


def _divided(view: View, head: _Head, axes: list[Axis], limits: dict[str, str]) -> list[Axis]:
    """Two axes where the one of the launch is divided into `i / N` and `i % N`; else the axes with their limits."""
    plain = [msgspec.structs.replace(a, limit=limits.get(a.name, "")) for a in axes]
    if len(axes) != 1:
        return plain
    name = axes[0].name
    if axes[0].offset:
        return plain
    row = _over(view, head, name, "/")
    column = _over(view, head, name, "%")
    if column is None and row is not None:
        rest = squeezed(f"{name}-{row[0].name}*{row[1]}")
        column = next(
            ((d, row[1]) for d in head.declared if d.value and squeezed(view.code(d.value)) == rest), None
        )
    if row is None or column is None or row[1] != column[1]:
        return plain
    by = view.written(field(unwrapped(row[0].value), "right")) if row[0].value is not None else row[1]
    rows = _quotient(view, head, limits[name], by) if limits.get(name) else limits.get(row[0].name, "")
    if not rows:
        return plain
    return [Axis(column[0].name, column[0].type, "x", by), Axis(row[0].name, row[0].type, "y", rows)]


def _rows(view: View, head: _Head, axes: list[Axis]) -> set[str]:
    """Names of what the launch's one axis is divided into: the row."""
    found = _over(view, head, axes[0].name, "/") if len(axes) == 1 else None
    return {found[0].name} if found is not None else set()


def _join(head: _Head, launched: Axis, axes: list[Axis]) -> None:
    """The launch's own number, `i * N + j` from now on."""
    column, row = axes
    by = column.limit if re.fullmatch(r"[\w.]+", column.limit) else f"({column.limit})"
    own = next(d for d in head.declared if d.name == launched.name)
    head.declared.remove(own)
    head.declared.append(msgspec.structs.replace(own, value=None, text=f"{row.name} * {by} + {column.name}"))


def _over(view: View, head: _Head, name: str, operator: str) -> tuple[Declared, str] | None:
    for one in head.declared:
        value = unwrapped(one.value) if one.value is not None else None
        if value is None or value.type != "binary_expression" or operator_of(value) != operator:
            continue
        if view.code(unwrapped(field(value, "left"))) == name:
            return one, view.code(field(value, "right"))
    return None


def _quotient(view: View, head: _Head, total: str, by: str) -> str:
    """`M` of `M * N` over `N`."""
    known = next((d.value for d in head.declared if d.name == total and d.value is not None), None)
    total = view.written(known) if known is not None else total
    factors = [f.strip() for f in total.split("*")]
    if by in factors and re.fullmatch(r"[\w\s*.]+", total):
        factors.remove(by)
        return " * ".join(factors)
    return " / ".join(e if re.fullmatch(r"[\w.]+", e) else f"({e})" for e in (total, by))


def head_of(view: View, axes: Sequence[Axis], declared: Sequence[Declared]) -> list[str]:
    """The declarations of some axes and variables, as they stood.

    Raises:
        Refused: an axis is divided out of the thread's number.
    """
    if any(not a.value for a in axes):
        raise Refused("its threads' number is divided into indices")
    lines = [(a.at, f"{a.type} {a.name} = {a.value};") for a in axes]
    for one in declared:
        value = f" = {view.written(one.value)}" if one.value is not None else ""
        at = one.value.start_byte if one.value is not None else one.statement.start_byte
        lines.append((at, f"{one.type} {one.stars}{one.name}{value};"))
    return [line for _, line in sorted(lines)]
