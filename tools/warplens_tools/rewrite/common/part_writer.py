# SPDX-License-Identifier: Apache-2.0
"""Writes what kernels that fold the parts of their windows apart have in common: several outputs a thread, each part
folded by the thread whose output it would be the first part of, and the launch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplens_tools.cuda.syntax.types import integer_type, type_bytes
from warplens_tools.rewrite.base import REORDERED, Refused, RewriteResult
from warplens_tools.rewrite.common.declared import Declared, unqualified
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.outputs import Axis
from warplens_tools.rewrite.common.reading import WORD, View, assigned, field, renamed
from warplens_tools.rewrite.common.row_folds import RowFolds, skips
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

STATIC_BYTES = 48 * 1024
_LOWER = re.compile(r"(\w+)\s*(?:>=|>)\s*[^<>=]+")


class PartWriter:
    """The new text of one kernel, whose constants and loop a rewrite writes."""

    def __init__(self, view: View, launches: Launches, found: RowFolds, part: str) -> None:
        self.view, self.launches, self.found, self.outputs = view, launches, found, found.outputs
        self.style = style = Style(view)
        self.down = found.down
        self.first, self.reach = style.local(f"{self.down.name}0"), style.local("reach")
        self.counter, self.at, self.chunk = style.local("o"), style.local("r"), style.local("r0")
        self.own, self.last = style.local("own"), style.local("last")
        names = [s.declared.name for s in found.states]
        self.held = {n: style.local(named(n, f"{part}s")) for n in names}
        self.part = {n: style.local(named(n, f"Of{part}")) for n in names}
        self._check()

    def _check(self) -> None:
        known, axes = integer_type(self.down.type), {a.name for a in self.outputs.axes}
        if known is None or known.bytes < 4:
            raise Refused("the outputs' number is narrow")
        for other in self.outputs.others:
            lower = _LOWER.fullmatch(other.strip())
            if lower is None or lower[1] not in axes:
                raise Refused("a condition on the outputs is not understood")
            if self.outputs.resting(frozenset(WORD.findall(other)) - {lower[1]}):
                raise Refused("a condition on the outputs is not understood")
        declared = {d.name for d in self.outputs.declared} - {s.declared.name for s in self.found.states}
        if declared & {name for n in self.found.tail for name, _ in assigned(n, self.view)}:
            raise Refused("what follows the window changes what other outputs need")

    def bytes(self) -> int:
        """Bytes of one part of every fold."""
        types = (self.view.concrete(unqualified(s.declared.type)) for s in self.found.states)
        return sum(type_bytes(t) or 8 for t in types)

    def result(self, lines: Sequence[str], title: str) -> RewriteResult:
        """The edit that gives the kernel a new body, and what belongs to it."""
        view, newline = self.view, self.view.text.newline
        code = self.style.lines("\n".join(lines))
        text = f"{{{newline}{code}{newline}{self.style.margin}}}"
        edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
        edits = (self.style.constants(), edit, *self.launches.edits())
        return RewriteResult(edits, title=title, caveat=REORDERED if self.found.is_reordered else "")

    def relaunch(self, tiles: Sequence[tuple[Axis, str]], threads: Sequence[str]) -> None:
        """Give every launch blocks of so many threads, and a block for each tile of outputs."""
        for launch in self.launches.read():
            grid = {}
            for index, (axis, tile) in enumerate(tiles):
                limit = host_text(self.view, self.launches, launch, axis.limit)
                before = f" - {axis.offset}" if axis.offset else ""
                grid[index] = f"({limit}{before} + {tile} - 1) / {tile}"
            self.launches.set(launch.grid, grid)
            self.launches.set(launch.block, dict(enumerate(threads)))

    # parts of the kernel

    def uniform(self) -> list[str]:
        """What is the same for all outputs."""
        states = {s.declared.name for s in self.found.states}
        lines = [
            _declaration(self.view, d)
            for d in self.outputs.declared
            if not self.outputs.rests[d.name] and d.name not in states
        ]
        return lines + [f"if (!({c})) return;" for c in self.outputs.uniform]

    def window(self, tile: str, what: str) -> list[str]:
        """The block's first output along the window, and the window's length."""
        written = unqualified(self.down.type)
        return [
            f"const {written} {self.first} = {self.block(self.down)} * {tile}{added(self.down.offset)};",
            f"const int {self.reach} = {self.found.reach};  // {what} of a window after its first",
        ]

    def block(self, axis: Axis) -> str:
        """The block's number along an axis, as wide as the axis's."""
        known, number = integer_type(axis.type), f"blockIdx.{axis.letter}"
        return f"({unqualified(axis.type)}){number}" if known is not None and known.bytes > 4 else number

    def states(self, count: str) -> list[str]:
        """The folds of the thread's outputs, as they begin."""
        lines = []
        for state in self.found.states:
            one = state.declared
            if one.value is None or self.outputs.resting(self.view.names(one.value)):
                raise Refused("what a fold begins at is another for each output")
            begun = f"{one.name}[{self.counter}] = {self.view.written(one.value)};"
            lines += [f"{unqualified(one.type)} {one.name}[{count}];", self.each([begun], count)]
        return lines

    def each(self, lines: Sequence[str], count: str) -> str:
        """Code for each output of the thread."""
        o, inner = self.counter, indented("\n".join(lines))
        return f"#pragma unroll\nfor (int {o} = 0; {o} < {count}; ++{o}) {{\n{inner}\n}}"

    def begun(self) -> list[str]:
        """The folds of one part, as they begin."""
        lines = []
        for state in self.found.states:
            one = state.declared
            value = state.neutral or (self.view.written(one.value) if one.value is not None else "")
            lines.append(f"{unqualified(one.type)} {self.part[one.name]} = {value};")
        return lines

    def folded(self) -> list[str]:
        """What folds one part, as the output sees it that it is the first part of."""
        names = frozenset().union(*(self.view.names(n) for n in self.found.body))
        lines = self._resting(names)
        lines.append(f"{self.found.type} {self.found.variable} = {self.found.foremost};")
        opened = 0
        for node in self.found.body:
            if skips(node):
                condition = self.view.written(field(node, "condition"))
                lines.append("  " * opened + f"if (!{condition}) {{")
                opened += 1
                continue
            code = renamed(self.view.written(node), self.part)
            lines.append(indented(self.style.code(code), opened))
        return [*lines, *("  " * level + "}" for level in reversed(range(opened)))]

    def tests(self, *, parts: bool) -> str:
        """Which outputs there are; with `parts`, which there would be with the parts that their windows hold."""
        found = []
        for axis in self.outputs.axes:
            more = f" + {self.reach}" if parts and axis.name == self.down.name else ""
            limit = axis.limit if not more or re.fullmatch(r"[\w.]+", axis.limit) else f"({axis.limit})"
            found.append(f"{axis.name} < {limit}{more}")
        return " && ".join([*found, *self.outputs.others])

    def tail(self, place: str, count: str) -> str:
        """What is done with the thread's outputs."""
        names = {s.declared.name: f"{s.declared.name}[{self.counter}]" for s in self.found.states}
        used = frozenset[str]().union(*(self.view.names(n) for n in self.found.tail))
        inner = self._resting(used)
        inner += [self.style.code(renamed(self.view.written(n), names)) for n in self.found.tail]
        lines = [
            f"{self.down.type} {self.down.name} = {self.first} + {place};",
            f"if ({self.tests(parts=False)}) {{",
            indented("\n".join(inner)),
            "}",
        ]
        return self.each(lines, count)

    def _resting(self, names: frozenset[str]) -> list[str]:
        """Declarations of an output's own variables, as far as the names need them."""
        states, kept, needed = {s.declared.name for s in self.found.states}, list[str](), set(names)
        for one in reversed(self.outputs.declared):
            if one.name in needed and one.name not in states and self.outputs.rests[one.name]:
                kept.append(_declaration(self.view, one))
                needed |= self.view.names(one.value) if one.value is not None else frozenset()
        return kept[::-1]


def _declaration(view: View, one: Declared) -> str:
    value = f" = {view.written(one.value)}" if one.value is not None else ""
    return f"{one.type} {one.stars}{one.name}{value};"


def named(name: str, what: str) -> str:
    """`leastRows`, or `min_rows` of a name in that style."""
    if "_" not in name:
        return f"{name}{what}"
    return f"{name}_{re.sub(r'(?<=[a-z])(?=[A-Z])', '_', what).lower()}"


def added(offset: int) -> str:
    """An axis's first value, as it is added."""
    return f" + {offset}" if offset else ""
