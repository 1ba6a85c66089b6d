# SPDX-License-Identifier: Apache-2.0
"""Axes of a launch that one variable of the kernel numbers, and kernels whose threads walk one instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import LOOPS, holds, walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared, declared_in, plainly_declared_in, unqualified
from warplens_tools.rewrite.common.launches import AXES, Launches
from warplens_tools.rewrite.common.reading import (
    JUMPS,
    View,
    assigned,
    field,
    squeezed,
    statements,
    stores,
    unwrapped,
)
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.rewrite.common.texts import cut
from warplens_tools.text import TextEdit

_CATCHES = LOOPS | {"switch_statement"}
_LOADS = frozenset({"subscript_expression", "pointer_expression", "call_expression"})


class LaunchAxis(msgspec.Struct, frozen=True):
    """An axis of the grid that one variable numbers, and nothing else."""

    letter: str
    number: Declared
    #: Threads of a block lie along it, too.
    threads: bool


def launch_axes(view: View) -> Iterator[LaunchAxis]:
    """The axes that one variable of the kernel's head numbers, the slowest first."""
    top = [n for n in statements(view.body) if n.type == "declaration"]
    code = squeezed(view.code(view.body))
    for letter in reversed(AXES):
        used = re.findall(rf"\b(?:blockIdx|threadIdx|blockDim)\.{letter}\b", code)
        for one in (d for n in top for d in plainly_declared_in(view, n)):
            if one.value is None or one.stars:
                continue
            value = squeezed(view.code(one.value))
            own = re.findall(rf"\b(?:blockIdx|threadIdx|blockDim)\.{letter}\b", value)
            form = view.forms.form(one.value)
            names = sorted(s.name for symbols, _ in form.terms for s in symbols) if form is not None else []
            alone = [f"blockIdx.{letter}"]
            whole = [f"blockDim.{letter}", f"blockIdx.{letter}", f"threadIdx.{letter}"]
            is_only = own and len(own) == len(used) and form is not None and form.constant == 0
            if (
                is_only
                and form is not None
                and names in (alone, whole)
                and all(f == 1 for _, f in form.terms)
            ):
                yield LaunchAxis(letter, one, names == whole)


class AxisWalk:
    """A kernel's statements, parted into those that rest on an axis of the grid and those that do not.

    `block`: the statements of which the last ones walk the axis. `around`: the `if` around them whose condition says
    how long the axis is.

    Raises:
        Refused: they cannot be parted.
    """

    def __init__(self, view: View, axis: LaunchAxis, block: list[Node], around: Node | None = None) -> None:
        self.view, self.axis, self.style = view, axis, Style(view)
        self.launches = Launches(view.text, view.model, view.kernel)
        self.launches.read()
        self.name = axis.number.name
        if any(name == self.name for name, _ in assigned(view.body, view)):
            raise Refused("the kernel changes its number along the axis")
        self.limit, self._parted = "", dict[int, tuple[str, ...]]()
        self.block, self.around = block, around
        self._read()

    # reading

    def _read(self) -> None:
        """Part the statements into those that rest on the axis and those that do not."""
        view = self.view
        self.resting = {self.name}
        self.moved, self.kept, self.guards = list[Node](), list[Node](), list[Node]()
        before = [n for n in self._leading() if n.id != self.axis.number.statement.id]
        stored = False
        for node in before:
            self._part(node)
            if self._is_guard(node):
                self.guards.append(node)
            elif self._rests(node):
                self._move(node)
        for node in self.block:
            if node.id == self.axis.number.statement.id:
                continue
            self._part(node)
            if self._is_guard(node) and not self._is_behind(node):
                self.guards.append(node)
                self.kept.append(node)
            elif self._rests(node) or stored or node.type != "declaration":
                if not self._rests(node) and not self._tail():
                    if any(stores(view, node)) or self._overtakes(node):
                        raise Refused("the order of its statements would change")
                    self.kept.append(node)
                    continue
                self.moved.append(node)
                self.resting |= self._declares(node)
                stored = stored or any(view.space(n) != "local" for n in stores(view, node))
            else:
                self.kept.append(node)
        self._check()

    def _overtakes(self, node: Node) -> bool:
        """Whether a statement sets what the moved ones before it read."""
        view, found = self.view, [m for m in self.moved if m in self.block]
        loads = any(n.type in _LOADS for m in found for n in walk(m))
        names = {name for name, _ in assigned(node, view)}
        return bool(found) and (loads or any(names & view.names(m) for m in found))

    def _is_behind(self, node: Node) -> bool:
        """Whether a condition comes behind what was moved."""
        return any(
            m.start_byte < node.start_byte for m in self.moved if m in self.block and m.type != "declaration"
        )

    def _tail(self) -> bool:
        """Whether more than declarations was moved already."""
        return any(n.type != "declaration" for n in self.moved)

    def _leading(self) -> list[Node]:
        """Statements of the kernel before the block's, where they are not of it."""
        ids = {n.id for n in self.block}
        first = self.block[0]
        return [n for n in statements(self.view.body) if n.id not in ids and not holds(n, first)]

    def _rests(self, node: Node) -> bool:
        return bool(self.view.names(node) & self.resting)

    def _declares(self, node: Node) -> set[str]:
        """The variables that a statement declares; of a parted one those that rest on the axis."""
        parted = self._parted.get(node.id)
        return set(parted) if parted is not None else {d.name for d in plainly_declared_in(self.view, node)}

    def _part(self, node: Node) -> None:
        """Part a declaration of which only some variables rest on the axis: `int row = y, col = x;`."""
        every, resting = plainly_declared_in(self.view, node), list[str]()
        for one in every:
            if one.value is not None and self.view.names(one.value) & (self.resting | set(resting)):
                resting.append(one.name)
        if resting and len(resting) < len(every):
            self._parted[node.id] = tuple(resting)

    def _declaration(self, node: Node, *, resting: bool) -> str:
        """The part of a parted declaration that rests on the axis, or the other."""
        every, names = declared_in(self.view, node), self._parted[node.id]
        nodes = node.children_by_field_name("declarator")
        chosen = [n for n, d in zip(nodes, every, strict=True) if (d.name in names) == resting]
        return f"{every[0].type} {', '.join(self.view.written(n) for n in chosen)};"

    def _move(self, node: Node) -> None:
        if node.type != "declaration" or not self._declares(node):
            raise Refused("more than declarations rests on the axis before the costly statement")
        self.moved.append(node)
        self.resting |= self._declares(node)

    def _is_guard(self, node: Node) -> bool:
        """`if (… || head >= heads) return;`"""
        if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
            return False
        inside = statements(field(node, "consequence"))
        return (
            len(inside) == 1
            and inside[0].type == "return_statement"
            and self.name in self.view.names(field(node, "condition"))
        )

    def _parts(self, node: Node, joined: str) -> list[Node]:
        node = unwrapped(node)
        operator = node.child_by_field_name("operator")
        if node.type != "binary_expression" or operator is None or operator.type != joined:
            return [node]
        return [*self._parts(field(node, "left"), joined), *self._parts(field(node, "right"), joined)]

    def _rest_of(self, guard: Node, joined: str = "||", sign: str = ">=") -> str:
        """A guard's condition without the axis; notes the axis's limit."""
        left = []
        test = field(guard, "condition")
        for part in self._parts(test, joined):
            if not self._rests(part):
                left.append(self.view.written(part))
                continue
            found = re.fullmatch(rf"{self.name}{sign}([^=].*)", squeezed(self.view.code(part)))
            bound = field(part, "right") if found is not None else None
            if bound is None or self._rests(bound) or self.limit:
                raise Refused("nothing says how long the axis is")
            self.limit = self.view.written(bound)
        return f" {joined} ".join(left)

    def _check(self) -> None:
        view = self.view
        if not self._tail():
            raise Refused("nothing is left to do along the axis")
        own = set().union(*(self._declares(n) for n in self.moved)) if self.moved else set()
        inner = {d.name for m in self.moved for n in walk(m) for d in plainly_declared_in(view, n)}
        for node in self.moved:
            if not view.is_plain_enough(node):
                raise Refused("a macro writes what would have to change")
            for jump in walk(node):
                if jump.type in JUMPS and not self._is_caught(jump, node):
                    raise Refused("the work along the axis is left early")
            for name, place in assigned(node, view):
                if unwrapped(place).type == "identifier" and name not in own | inner:
                    raise Refused("the work along the axis sets a variable of the thread")
        leading = [n for n in self.moved if n not in self.block]
        changed = {name for name, _ in assigned(view.body, view)}
        if any(view.names(n) & changed - own for n in leading):
            raise Refused("the order of its statements would change")
        outside = [n for n in walk(view.body) if n.type == "identifier" and view.code(n) in self.resting]
        spans = [*self.moved, *self.guards, self.axis.number.statement]
        spans += [field(self.around, "condition")] if self.around is not None else []
        if any(not any(holds(s, n) for s in spans) for n in outside):
            raise Refused("a condition rests on the axis")
        if any(view.space(n) == "local" for m in self.moved for n in stores(view, m)):
            raise Refused("the work along the axis sets an array of the thread")

    @property
    def unmoved(self) -> list[Node]:
        """What stays: the kept statements of the block, and declarations before it."""
        moved = {n.id for n in self.moved}
        before = [n for n in self._leading() if n.id not in moved and n.type == "declaration"]
        return [*self.kept, *before]

    def _is_caught(self, jump: Node, top: Node) -> bool:
        if jump.type not in ("break_statement", "continue_statement"):
            return False
        outer = jump.parent
        while outer is not None and outer.start_byte >= top.start_byte:
            if outer.type in _CATCHES:
                return True
            if outer.id == top.id:
                return False
            outer = outer.parent
        return False

    # writing

    def edits(self, first: str, step: str, limit: Callable[[], str]) -> list[TextEdit]:
        """The edits of the kernel. `limit` is asked for the axis's where no condition says it."""
        view, style, number = self.view, self.style, self.axis.number
        edits = [self._without(number.statement)]
        for guard in self.guards:
            rest = self._rest_of(guard)
            if rest:
                edits.append(TextEdit(view.span(field(guard, "condition")), f"({rest})"))
            else:
                edits.append(self._cut(guard))
        if self.around is not None:
            rest = self._rest_of(self.around, "&&", "<")
            if not rest:
                raise Refused("a condition rests on the axis")
            edits.append(TextEdit(view.span(field(self.around, "condition")), f"({rest})"))
        end = self.limit or limit()
        kind = unqualified(number.type)
        head = f"for ({kind} {self.name} = {first}; {self.name} < {end}; {self.name} += {step}) {{"
        inside = [
            self._declaration(n, resting=True) if n.id in self._parted else style.code(view.written(n))
            for n in self.moved
        ]
        code = "\n".join([head, *(indented(one) for one in inside), "}"])
        last = self.block[-1]
        margin = re.match(r"[ \t]*", view.text.line_text(view.span(self.moved[-1]).line))
        deep = (margin[0] if margin is not None else "").removeprefix(style.margin)
        for node in self.moved:
            if node.id in self._parted:
                edits.append(TextEdit(view.span(node), self._declaration(node, resting=False)))
            elif node.id != last.id:
                edits.append(self._cut(node))
        if last.id != self.moved[-1].id:
            raise Refused("what the axis does not change comes last")
        level = max(len(deep) // max(len(style.step), 1), 1)
        return [*edits, TextEdit(view.span(last), style.lines(code, level).lstrip())]

    def _without(self, statement: Node) -> TextEdit:
        """The declaration without the axis's number."""
        every = declared_in(self.view, statement)
        if len(every) == 1:
            return self._cut(statement)
        nodes = [
            n
            for n in statement.children_by_field_name("declarator")
            if self.view.code(n).partition("=")[0].strip() != self.name
        ]
        if len(nodes) != len(every) - 1:
            raise Refused("the number along the axis is declared in a way that is not understood")
        text = f"{every[0].type} {', '.join(self.view.written(n) for n in nodes)};"
        return TextEdit(self.view.span(statement), text)

    def _cut(self, node: Node) -> TextEdit:
        """A statement taken out with its line."""
        view = self.view
        return cut(view.text, view.start(node), view.end(node))
