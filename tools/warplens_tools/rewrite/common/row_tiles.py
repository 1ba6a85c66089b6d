# SPDX-License-Identifier: Apache-2.0
"""A product in shared tiles as its kernel has it: the row of a thread's output, what rests on it, the tiles of that."""

from __future__ import annotations

import re

from tree_sitter import Node

from warplens_tools.cuda.syntax.tree import walk
from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.declared import Declared, declared_in
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.rewrite.common.reading import View, assigned, field, statements
from warplens_tools.rewrite.common.sizes import limit_of
from warplens_tools.rewrite.common.thread_forms import axis_letter


class RowTiles:
    """What a kernel keeps for the row of a thread's output.

    Raises:
        Refused: the kernel has no such row, or uses it in a way that is not understood.
    """

    def __init__(self, view: View, launches: Launches) -> None:
        self.view, self.launches = view, launches
        self.site = launches.read()[0].site
        every = [
            d for n in statements(view.body) if n.type == "declaration" for d in plain_declarations(view, n)
        ]
        rows = [d for d in every if d.value is not None and self._letter(d.value) == "y"]
        if len(rows) != 1 or rows[0].value is None:
            raise Refused("no variable is the row of the thread's output")
        self.row, self.declared = rows[0], every
        #: Threads of a block along y, as text.
        self.height = self._height()
        #: Integers that are worked out from the row before the work.
        self.derived = self._derived()
        #: Variables that each thread sums up for its row.
        self.states: set[str] = set()
        #: Shared arrays that hold what rests on the row: which of their indices is the thread's row.
        self.tiles = self._tiles()
        while (found := self._states()) != self.states:
            # what a row came to may be put into a further tile, and summed up again
            self.states = found
            self.tiles = self._tiles()
        self._check()

    def _letter(self, value: Node) -> str:
        return axis_letter(self.view.forms.form(value), self.site)

    def _height(self) -> str:
        """Threads of a block along y, as the row's own expression says it."""
        code = self.view.written(self.row.value) if self.row.value is not None else ""
        found = re.search(r"(?:blockIdx\.y|\b\w+)\s*\*\s*(blockDim\.y|[A-Za-z_]\w*|\d+)", code)
        found = found or re.search(r"(blockDim\.y)\s*\*", code) or re.search(r"\b([A-Z_]\w*|\d+)\s*\*", code)
        extent = self.site.block_value[1]
        if found is None:
            raise Refused("how many rows a block has is not known")
        known = self.view.expanded.constants.value(found[1], self.view.body.start_byte)
        if found[1] != "blockDim.y" and (known is None or known != extent):
            raise Refused("how many rows a block has is not known")
        return found[1]

    def _derived(self) -> dict[str, Declared]:
        """Integers that are worked out from the row before the work, to be worked out again for each."""
        names = {self.row.name}
        found: dict[str, Declared] = {}
        for one in self.declared:
            if one.value is not None and self.view.names(one.value) & names and one.name != self.row.name:
                names.add(one.name)
                found[one.name] = one
        return found

    def _tiles(self) -> dict[str, int]:
        """Shared arrays that hold what rests on the row: which of their indices is the thread's row."""
        view, found = self.view, dict[str, int]()
        known = {self.row.name, *self.derived, *self.states}
        for node in walk(view.body):
            if node.type != "assignment_expression":
                continue
            name, place = next(iter(assigned(node, view)))
            shared = next((a for a in view.kernel.arrays if a.name == name and a.space == "shared"), None)
            if shared is None:
                continue
            guards = view.names(field(node, "right")) | _guards(view, node)
            if not guards & known:
                continue
            indices = _indices(place)
            mine = [i for i, index in enumerate(indices) if self._is_thread_row(index)]
            if len(mine) != 1 or len(indices) != len(shared.extents) or shared.dynamic:
                raise Refused(f"{name} is not indexed by the thread's row")
            found[name] = mine[0]
        if not found:
            raise Refused("no shared tile holds what rests on the row")
        return found

    def _is_thread_row(self, index: Node) -> bool:
        form = self.view.forms.form(index)
        return form is not None and [(tuple(s.name for s in t), f) for t, f in form.terms] == [
            (("threadIdx.y",), 1)
        ]

    def _states(self) -> set[str]:
        """Variables of the body that are set from the tiles."""
        found: set[str] = set()
        for node in walk(self.view.body):
            if node.type in ("assignment_expression", "update_expression"):
                name, place = next(iter(assigned(node, self.view)))
                if place.type == "identifier" and self.is_own(node):
                    found.add(name)
        declared = {d.name for d in self.declared}
        if found - declared or not found or found & set(self.derived) or self.row.name in found:
            raise Refused("no result of its own is summed up by each thread")
        return found

    def is_own(self, node: Node) -> bool:
        """Whether a statement is done once for each row."""
        return bool(self.view.names(node) & {self.row.name, *self.derived, *self.tiles})

    def _check(self) -> None:
        code = self.view.code(self.view.body)
        uses = len(re.findall(r"\bblockIdx\s*\.\s*y\b", code))
        uses += sum(len(re.findall(rf"\b{a}\b", code)) - 2 for a in self.block_rows())
        if uses != 1 or "return" in code.split() or re.search(r"\breturn\b", code):
            raise Refused("the block's row is used for more than the thread's row, or threads return early")

    def block_rows(self) -> list[str]:
        """Variables that are the block's row."""
        return [
            d.name for d in self.declared if d.value is not None and self.view.code(d.value) == "blockIdx.y"
        ]

    def limit(self, rows: int) -> str:
        """Where the rows end, where accesses of a thread with `rows` of them may go beyond; "" where none does."""
        view, grid = self.view, self.site.grid_value[1]
        row = re.escape(self.row.name)
        bounded = re.compile(rf"\b{row}\s*<|>\s*{row}\b|\b{row}\s*>=")
        open_ones = [
            e
            for e in view.elements(view.body)
            if view.space(e) == "global"
            and view.names(e) & {self.row.name, *self.derived}
            and not bounded.search(_around(view, e))
        ]
        if not open_ones or (grid is not None and grid % rows == 0):
            return ""
        return limit_of(view, self.launches, "y")

    def row_indices(self, node: Node) -> list[Node]:
        """The indices, in uses of the rows' tiles, that are the thread's row, or another one of the same block's: a
        thread's rows are those of as many blocks, one upon the other.
        """
        found = []
        for element in self.view.elements(node):
            name = self.view.array(element)
            if name not in self.tiles:
                continue
            index = _indices(element)[self.tiles[name]]
            if not self._is_thread_row(index) and not self._is_as_high(name):
                raise Refused(f"{name} is read at another row than the thread's")
            found.append(index)
        return found

    def _is_as_high(self, name: str) -> bool:
        """Whether a tile has as many rows as the block."""
        array = next(a for a in self.view.kernel.arrays if a.name == name)
        return array.sizes[self.tiles[name]] == self.site.block_value[1] is not None


def plain_declarations(view: View, node: Node) -> list[Declared]:
    """The variables of a declaration; [] where it has more than names and values."""
    try:
        return declared_in(view, node)
    except Refused:
        return []


def _indices(place: Node) -> list[Node]:
    """The indices of `tile[i][j]`, outermost first."""
    found: list[Node] = []
    current: Node | None = place
    while current is not None and current.type == "subscript_expression":
        found += field(current, "indices").named_children[:1]
        current = current.child_by_field_name("argument")
    return found[::-1]


def _around(view: View, node: Node) -> str:
    """The code of the statement around an access, and of the conditions around that."""
    parts: list[str] = []
    outer: Node | None = node
    while outer is not None and outer.start_byte >= view.body.start_byte:
        if outer.type in ("expression_statement", "declaration"):
            parts.append(view.code(outer))
        if outer.type == "if_statement":
            parts.append(view.code(field(outer, "condition")))
        outer = outer.parent
    return " ".join(parts)


def _guards(view: View, node: Node) -> frozenset[str]:
    """Names in the conditions around a statement."""
    found: frozenset[str] = frozenset()
    outer = node.parent
    while outer is not None and outer.start_byte >= view.body.start_byte:
        if outer.type == "if_statement":
            found |= view.names(field(outer, "condition"))
        outer = outer.parent
    return found
