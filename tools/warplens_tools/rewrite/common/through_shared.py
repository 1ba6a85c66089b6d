# SPDX-License-Identifier: Apache-2.0
"""What each thread has of its own comes and goes through shared memory: the frame around it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from tree_sitter import Node

from warplens_tools.rewrite.base import Refused, RewriteResult
from warplens_tools.rewrite.common.declared import Declared, unqualified
from warplens_tools.rewrite.common.launches import Launches, rounded_up
from warplens_tools.rewrite.common.outputs import Axis, Outputs
from warplens_tools.rewrite.common.reading import View, substituted
from warplens_tools.rewrite.common.sizes import host_text
from warplens_tools.rewrite.common.style import Style, indented
from warplens_tools.text import TextEdit

#: Bytes of shared memory that a block may declare (CUDA C++ Programming Guide, technical specifications).
_STATIC_BYTES = 48 * 1024


class Brought(Protocol):
    """One array of which each thread has its own part."""

    @property
    def needed(self) -> bool:
        """Whether what was there before is."""

    @property
    def written(self) -> bool:
        """Whether a thread stores to its part."""


B = TypeVar("B", bound=Brought)


class ThroughShared(ABC, Generic[B]):
    """The new text of one kernel: a block brings in what its threads need, each works on its own, and the block brings
    out what they wrote."""

    def __init__(
        self,
        view: View,
        launches: Launches,
        outputs: Outputs,
        axis: Axis,
        every: Sequence[B],
        *,
        name: str,
        of: str,
    ) -> None:
        """`name`: of the constant that says how many threads a block has. `of`: what they have, in words.

        Raises:
            Refused: not even what a warp has fits into shared memory.
        """
        self.view, self.launches, self.outputs, self.axis, self.every = view, launches, outputs, axis, every
        self.style = Style(view)
        bytes_each = sum(map(self.bytes_of, every))
        threads = next((n for n in (128, 64, 32) if n * bytes_each <= _STATIC_BYTES), 0)
        if not threads:
            raise Refused(f"the {of} of a warp do not fit into shared memory")
        self.count = self.style.constant(name, str(threads), "of a block, one for each thread")
        self.first, self.held = self.style.local(f"{axis.name}0"), self.style.local("held")
        self.t = self.style.local("t")

    @abstractmethod
    def bytes_of(self, one: B) -> int:
        """Of shared memory, for one thread."""

    @abstractmethod
    def shared(self, one: B) -> str:
        """The declaration of an array's shared memory."""

    def placed(self) -> Iterator[str]:
        """What is declared once the block's first output is known."""
        yield from ()

    @abstractmethod
    def moved(self, one: B, *, inward: bool) -> str:
        """The loop that brings one array's parts in or out."""

    @abstractmethod
    def named(self) -> Iterator[str]:
        """What a thread's work begins with; fills `replaced`."""

    def result(self, title: str) -> RewriteResult:
        """All edits."""
        for launch in self.launches.read():
            limit = host_text(self.view, self.launches, launch, self.axis.limit)
            self.launches.set(launch.grid, {0: rounded_up(limit, self.count)})
            self.launches.set(launch.block, {0: self.count})
        view, newline = self.view, self.view.text.newline
        code = self.style.lines("\n".join(self._lines()))
        text = f"{{{newline}{code}{newline}{self.style.margin}}}"
        edit = TextEdit(view.text.span(view.start(view.body), view.end(view.body)), text)
        edits = (self.style.constants(), edit, *self.launches.edits())
        return RewriteResult(edits, title=title, caveat="undefined results if two of the buffers overlap")

    def _lines(self) -> Iterator[str]:
        axis = self.axis
        yield from map(self.shared, self.every)
        yield f"const {unqualified(axis.type)} {self.first} = blockIdx.x * {self.count};"
        left = f"{axis.limit} - {self.first}"
        yield f"const int {self.held} = {left} < {self.count} ? {left} : {self.count};"
        yield from self.placed()
        yield from (self.moved(one, inward=True) for one in self.every if one.needed)
        if any(one.needed for one in self.every):
            yield "__syncthreads();"
        yield f"{axis.type} {axis.name} = {self.first} + threadIdx.x;"
        tests = [f"{axis.name} < {axis.limit}", *self.outputs.uniform, *self.outputs.others]
        yield f"if ({' && '.join(tests)}) {{"
        yield from (indented(line) for line in self._work())
        yield "}"
        if any(one.written for one in self.every):
            yield "__syncthreads();"
        yield from (self.moved(one, inward=False) for one in self.every if one.written)

    def _work(self) -> Iterator[str]:
        self.replaced = list[tuple[Node, str]]()
        yield from self.named()
        yield from map(self._declaration, self.outputs.declared)
        for node in self.outputs.work:
            yield self.style.code(substituted(self.view, node, self._within(node)), self.view.margin(node))

    def _declaration(self, one: Declared) -> str:
        head = f"{one.type} {one.stars}{one.name}"
        if one.value is None:
            return f"{head}{f' = {one.text}' if one.text else ''};"
        if one.stars and re.search(rf"\*\s+{one.name}\b", self.view.code(one.statement)):
            head = f"{one.type}{one.stars} {one.name}"
        return f"{head} = {substituted(self.view, one.value, self._within(one.value))};"

    def _within(self, node: Node) -> list[tuple[Node, str]]:
        return [(n, s) for n, s in self.replaced if node.start_byte <= n.start_byte < node.end_byte]
