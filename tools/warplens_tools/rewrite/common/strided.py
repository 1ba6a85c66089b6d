# SPDX-License-Identifier: Apache-2.0
"""A kernel's work as a loop over several items a thread, so that what a block does once is shared by more of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tree_sitter import Node

from warplens_tools.rewrite.base import Refused, RewriteResult
from warplens_tools.rewrite.common.declared import Declared, unqualified
from warplens_tools.rewrite.common.guarded_head import loaded
from warplens_tools.rewrite.common.launches import Launches, rounded_up
from warplens_tools.rewrite.common.outputs import THREAD, Axis, head_of, read_outputs
from warplens_tools.rewrite.common.reading import View, assigned, substituted
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

Replacement = tuple[Node, str]


class Strided:
    """The work of a kernel whose threads have one item each, or loop already, ready to be framed.

    `before` and `after` are done once by every thread of a block, whatever its items.
    """

    def __init__(self, view: View, launches: Launches) -> None:
        self.view, self.launches, self.style = view, launches, Style(view)
        sites = launches.read()
        self.outputs = read_outputs(view, sites[0].site)
        limited = [a for a in self.outputs.axes if a.limit and a.letter]
        if self.outputs.early:
            raise Refused("some items are done early")
        if any(not a.value for a in self.outputs.axes):
            raise Refused("its threads' number is divided into two")
        #: The axis along which a thread takes several items; None where nothing limits its number.
        self.axis: Axis | None = limited[-1] if limited else None
        changed = {name for n in self.outputs.work for name, _ in assigned(n, view)}
        #: Variables that the work sets: each item has them anew.
        self._changed = frozenset(changed)
        if self.axis is None and (self.outputs.others or self.outputs.uniform):
            raise Refused("threads are left out by a condition that is not understood")
        if "return" in " ".join(view.code(n) for n in self.outputs.work).split():
            raise Refused("threads return early")

    def kernel(self, before: str, replaced: Sequence[Replacement], after: str) -> TextEdit:
        """The edit of the kernel's body."""
        view = self.view
        inner = [self.style.code(self._text(n, replaced)) for n in self.outputs.work]
        body = "\n".join(
            [*filter(None, [self._top(), before]), self._items("\n".join(inner), replaced), after]
        )
        newline = view.text.newline
        text = f"{{{newline}{self.style.lines(body)}{newline}{self.style.margin}}}"
        return TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)

    def relaunch(self, items: str) -> None:
        """A grid for `items` items a thread."""
        if self.axis is None:
            return
        index = "xyz".index(self.axis.letter)
        for launch in self.launches.read():
            self.launches.set(launch.grid, {index: rounded_up(launch.grid.axis(index), items)})

    def result(self, edit: TextEdit, title: str, caveat: str) -> RewriteResult:
        """All edits: the constants, the kernel, the launches."""
        constants = [self.style.constants()] if self.style.has_constants else []
        return RewriteResult((*constants, edit, *self.launches.edits()), title=title, caveat=caveat)

    def _text(self, node: Node, replaced: Sequence[Replacement]) -> str:
        inside = [
            (n, t) for n, t in replaced if node.start_byte <= n.start_byte and n.end_byte <= node.end_byte
        ]
        return substituted(self.view, node, inside)

    def _is_top(self, one: Declared) -> bool:
        axis = self.axis
        if axis is None:
            return True
        return axis.name not in self.outputs.rests[one.name] and one.name not in self._changed

    def _top(self) -> str:
        """What is declared once a thread."""
        others = [a for a in self.outputs.axes if self.axis is None or a.name != self.axis.name]
        late = self._late()
        top = [d for d in self.outputs.declared if self._is_top(d) and d not in late]
        return "\n".join(head_of(self.view, others, top))

    def _late(self) -> list[Declared]:
        """What is loaded for a place along another axis, or behind a condition that is a block's: nothing may be there
        beyond that axis's limit, or where the condition does not hold.
        """
        others = {a.name for a in self.outputs.axes if a.limit and self.axis is not None} - self._own()
        absent = [f"{a.name} < {a.limit}" for a in self.outputs.axes if a.name in others]
        absent += self.outputs.uniform
        found = loaded(self.view, self.outputs.declared, absent) if absent else []
        return [d for d in found if self.outputs.uniform or self.outputs.rests[d.name] & others]

    def _own(self) -> set[str]:
        return {self.axis.name} if self.axis is not None else set()

    def _declaration(self, one: Declared) -> str:
        value = f" = {self.view.written(one.value)}" if one.value is not None else ""
        return f"{one.type} {one.stars}{one.name}{value};"

    def _items(self, inner: str, replaced: Sequence[Replacement]) -> str:
        del replaced
        axis = self.axis
        if axis is None:
            return inner
        limits = [f"{a.name} < {a.limit}" for a in self.outputs.axes if a.limit and a.name != axis.name]
        limits, late = [*limits, *self.outputs.uniform], self._late()
        if late:
            inner = "\n".join([*map(self._declaration, late), _where(self.outputs.others, inner)])
        inner = _where(limits if late else [*limits, *self.outputs.others], inner)
        below = [self._declaration(d) for d in self.outputs.declared if not self._is_top(d) and d not in late]
        written = unqualified(axis.type)
        step = f"blockDim.{axis.letter} * gridDim.{axis.letter}"
        first = f"{written} {axis.name} = {axis.value}"
        head = f"for ({first}; {axis.name} < {axis.limit}; {axis.name} += {step}) {{"
        return "\n".join([head, indented("\n".join([*below, inner])), "}"])

    def check_uniform(self, node: Node) -> None:
        """That an expression is the same for all threads of a block, in all iterations.

        Raises:
            Refused: it is not.
        """
        names = self.view.names(node)
        known = self.view.parameters | {
            d.name for d in self.outputs.declared if not self.outputs.rests[d.name] or self._is_blocks(d.name)
        }
        known |= {c.name for c in self.view.model.constants}
        form = self.view.forms.form(node)
        is_number = form is not None and form.value is not None
        if names & {d.name for d in self._late()}:
            raise Refused("the place is loaded only where a condition holds")
        by_thread = "threadIdx" in self.view.code(node) or any(
            THREAD in self.outputs.resting(frozenset({name})) and not self._is_blocks(name) for name in names
        )
        if not is_number and (names - known or by_thread):
            raise Refused("the threads of a block do not all go to one place")

    def _is_blocks(self, name: str) -> bool:
        """Whether a variable that rests on no axis is made of the block's number alone, not of the thread's."""
        one = next((d for d in self.outputs.declared if d.name == name), None)
        if one is None or one.value is None or self.outputs.rests[name] - {THREAD} or name in self._changed:
            return False
        code = self.view.code(one.value)
        along = "" if self.axis is None else self.axis.letter
        # the grid gets another length along the axis of the items, and no condition stands around the block's result
        if (
            "threadIdx" in code
            or self.outputs.uniform
            or re.search(rf"\bblockIdx\s*\.\s*[{along or '_'}]", code)
        ):
            return False
        made_of = self.view.names(one.value) & {d.name for d in self.outputs.declared}
        return all(self._is_blocks(n) or not self.outputs.rests[n] for n in made_of)


def _where(tests: Sequence[str], inner: str) -> str:
    """Code under conditions; as it is where there are none."""
    return f"if ({' && '.join(tests)}) {{\n{indented(inner)}\n}}" if tests else inner


def thread_number(view: View, launches: Launches) -> str:
    """The number of a thread in its block."""
    flat = all(launches.block_value(axis) == 1 for axis in (1, 2)) or not re.search(
        r"\b(?:threadIdx|blockDim)\s*\.\s*[yz]\b", view.code(view.body)
    )
    return "threadIdx.x" if flat else "threadIdx.y * blockDim.x + threadIdx.x"


def block_threads(number: str) -> str:
    """The threads of a block, for the number that `thread_number` gives."""
    return "blockDim.x" if "y" not in number else "blockDim.x * blockDim.y"
