# SPDX-License-Identifier: Apache-2.0
"""Shared tiles of one dimension, or of a side that the run tells, in the form that `untiled` reads: square ones.

`sA[ty * ts + tx]` of `extern __shared__ float sA[];` becomes `sA[ty][tx]` of `__shared__ float sA[1009][1009];`, where
1009 stands for the side, which is the block's in every launch. The text is read, never compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.parse import parse
from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import View, field, operator_of, squeezed, unwrapped
from warplens_tools.rewrite.common.untiled import TileReader, Untiled
from warplens_tools.text import TextEdit

#: Stands for a side that is no number: a prime that no size of a kernel's is.
STAND_IN = 1009
_BLOCK = re.compile(r"blockDim\.[xy]")
_NUMBERED = re.compile(r"blockIdx\s*\.\s*([xyz])")


class Squared(msgspec.Struct, frozen=True):
    """A kernel with square tiles. `side` is what stands for the block's extents, None where they are constant."""

    view: View
    side: int | None


def untiled(view: View) -> Untiled:
    """The kernel without its tiles, be they of two dimensions or flat, of a constant side or the block's.

    Raises:
        Refused: its work is of another shape.
    """
    try:
        return TileReader(view).read()
    except Refused as why:
        first = why
    try:
        square = squared(view)
        found = TileReader(square.view, square.side).read()
    except Refused:
        raise first from None
    if str(STAND_IN) in found.text:
        raise first
    return found


def squared(view: View) -> Squared:
    """The kernel with its flat tiles, or its tiles of a run-time side, as square ones.

    Raises:
        Refused: its tiles are of another kind, or nothing says that their side is the block's.
    """
    if str(STAND_IN) in view.code(view.body):
        raise Refused("a number of the kernel is the one that stands for a tile's side")
    reader = _Reader(view)
    text = view.text.apply(reader.edits())
    model = parse(text, view.model.path)
    kernel = model.same(view.kernel, view.model)
    if kernel is None or kernel.broken:
        raise Refused("the flat tiles are not understood")
    return Squared(View(text, model, kernel), None if reader.value is not None else STAND_IN)


class _Reader:
    """The flat tiles of one kernel."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.flat = {a.name: a for a in view.kernel.arrays if a.space == "shared" and len(a.extents) <= 1}
        self.carved = {name: node for node in self._declarations() if (name := self._carves(node))}
        self.names = ({n for n, a in self.flat.items() if not a.dynamic} | set(self.carved)) or set(self.flat)
        self.places = [p for n in walk(view.body) if (p := self._place(n)) is not None]
        self.side = self._side()
        self.value = view.expanded.constants.value(self.side, view.body.start_byte)
        if self.value is None and not self._is_the_blocks():
            raise Refused("nothing says that a tile is as wide as its block")

    def edits(self) -> list[TextEdit]:
        """The kernel's text with square tiles."""
        width = self.side if self.value is not None else str(STAND_IN)
        found, done = list[TextEdit](), list[Node]()
        for node in self._declarations():
            code = self.view.code(node)
            carved = next((n for n, at in self.carved.items() if at.id == node.id), "")
            if carved:
                kind = code.partition("*")[0].removeprefix("const").strip()
                new = f"__shared__ {kind} {carved}[{width}][{width}];"
            elif "__shared__" not in code:
                continue
            else:
                new = self._squares(code, width)
            found.append(TextEdit(self.view.span(node), new))
            done.append(node)
        for index, row, column in self.places:
            found.append(TextEdit(self.view.span(index), f"{self._plain(row)}][{self._plain(column)}"))
            done.append(index)
        if self.value is None:
            found += self._sides(done)
        return found

    def _declarations(self) -> Iterator[Node]:
        for node in walk(self.view.body):
            if node.type == "declaration":
                yield node

    def _carves(self, node: Node) -> str:
        """The pointer that a declaration makes to a part of dynamic shared memory; "" for none."""
        dynamic = "|".join(n for n, a in self.flat.items() if a.dynamic)
        code = self.view.code(node)
        made = re.fullmatch(
            rf"(?:\w+\s+)*\w+\s*\*\s*(?:const\s+|__restrict__\s+)?(\w+)\s*=[^,;]*\b(?:{dynamic})\b[^,;]*;",
            code,
        )
        return made[1] if made is not None and dynamic else ""

    def _squares(self, code: str, width: str) -> str:
        """A declaration of shared arrays with square ones; "" for what is carved up."""
        if any(a.dynamic and n not in self.names for n, a in self.flat.items() if n in code):
            return ""
        for name in self.names & set(self.flat):
            code = re.sub(rf"\b{name}\s*\[[^\]]*\]", f"{name}[{width}][{width}]", code)
        return re.sub(r"\bextern\s+", "", code)

    def _place(self, node: Node) -> tuple[Node, Node, Node] | None:
        """An element of a tile: its index, and the two terms of that."""
        if (
            node.type != "subscript_expression"
            or self.view.code(field(node, "argument")).strip() not in self.names
        ):
            return None
        listed = field(node, "indices").named_children
        index = unwrapped(listed[0]) if len(listed) == 1 else node
        if index.type != "binary_expression" or operator_of(index) != "+":
            raise Refused("an element of a flat tile is no row and column")
        left, right = (unwrapped(field(index, f)) for f in ("left", "right"))
        if operator_of(left) == "*":
            return listed[0], left, right
        if operator_of(right) == "*":
            return listed[0], right, left
        raise Refused("an element of a flat tile is no row and column")

    def _side(self) -> str:
        """What every row of a tile is multiplied by."""
        if {self.view.code(field(i.parent.parent, "argument")).strip() for i, _, _ in self.places
            if i.parent is not None and i.parent.parent is not None} != self.names:  # fmt: skip
            raise Refused("a flat tile is not read")
        common: set[str] | None = None
        for _, row, _ in self.places:
            sides = {squeezed(self.view.code(unwrapped(field(row, f)))) for f in ("left", "right")}
            common = sides if common is None else common & sides
        common = {c for c in common or () if not c.startswith("threadIdx")}
        if len(common) != 1:
            raise Refused("rows of a flat tile are no multiple of one side")
        return common.pop()

    def _plain(self, node: Node) -> str:
        """A row, without its side, or a column."""
        if operator_of(node) == "*":
            sides = [unwrapped(field(node, f)) for f in ("left", "right")]
            node = next(s for s in sides if squeezed(self.view.code(s)) != self.side)
        return self.view.written(node)

    def _is_the_blocks(self) -> bool:
        """Whether a side is both extents of the block in every launch."""
        launches = Launches(self.view.text, self.view.model, self.view.kernel)
        for launch in launches.read():
            extents = {squeezed(launches.meaning(launch.block.axis(a), launch)) for a in (0, 1)}
            given = squeezed(launches.meaning(launches.argument(launch, self.side), launch))
            if len(extents) != 1 or not (_BLOCK.fullmatch(self.side) or given in extents):
                return False
        return _BLOCK.fullmatch(self.side) is not None or self.side in self.view.parameters

    def _sides(self, done: list[Node]) -> Iterator[TextEdit]:
        """The side elsewhere in the kernel: with a block's number the block's extent, else the number for it."""
        for node in walk(self.view.body):
            inside = any(d.start_byte <= node.start_byte < d.end_byte for d in done)
            code = squeezed(self.view.code(node)) if node.type in ("identifier", "field_expression") else ""
            own = _BLOCK.fullmatch(code) if _BLOCK.fullmatch(self.side) else code == self.side
            if inside or not own:
                continue
            outer = node.parent
            factor = self.view.code(outer) if outer is not None and operator_of(outer) == "*" else ""
            numbered = _NUMBERED.search(factor)
            new = f"blockDim.{numbered[1]}" if numbered is not None else str(STAND_IN)
            yield TextEdit(self.view.span(node), new)
