# SPDX-License-Identifier: Apache-2.0
"""Blocks of neighbouring columns by parts of a column, for kernels with a thread for each column."""

from __future__ import annotations

from collections.abc import Iterable

from tree_sitter import Node

from warplens_tools.rewrite.base import Refused
from warplens_tools.rewrite.common.kernel_reader import KernelReader
from warplens_tools.rewrite.common.launches import Launch, times
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened

#: A warp's worth of neighbours, and half a block of 1024 threads.
_COLUMNS, _PARTS = 32, 16
#: What a search may make of them.
RANGES = {"kColumns": (8, 16, 32), "kParts": (8, 16, 32, 64, 128)}


def walks_columns(reader: KernelReader, body: Node) -> bool:
    """Whether threads that are neighbours access neighbours in a loop with that body."""
    span = reader.tree.span(body)
    return any(
        access.traced is not None
        and access.traced.coefficient("threadIdx.x") in (1, -1)
        and span.contains(access.span)
        for access in reader.accesses
    )


class ColumnBlocks:
    """A kernel whose threads along `x` have a column each, about to get `threadIdx.y` for parts of it.

    Raises:
        Refused: its threads are numbered otherwise.
    """

    def __init__(self, found: Opened) -> None:
        self.found = found
        if any(found.launches.block_value(axis) not in (None, 1) for axis in (1, 2)):
            raise Refused("its blocks have more than one dimension already")
        for axis in "yz":
            used = Numbering(found.reader, axis, None)
            if used.threads or used.sizes:
                raise Refused("its threads are numbered by more than one axis")
        self._numbering = Numbering(found.reader, "x", found.launches.block_value(0))
        self._numbering.check_whole()
        self._widths = self._numbering.widths()

    def check_neighbours(self, bodies: Iterable[Node]) -> None:
        """Raises `Refused` where these loops do not walk down columns that are neighbours."""
        if not any(walks_columns(self.found.reader, body) for body in bodies):
            raise Refused("its loop does not walk down columns that are neighbours")

    def relaunch(self) -> tuple[str, str, tuple[str, str]]:
        """Edits the launches; what columns and parts of a block are called, and both definitions."""
        found = self.found
        columns, first = found.constant(_COLUMNS, "columns")
        parts, second = found.constant(_PARTS, "parts")
        for node in self._widths:
            written = "".join(found.reader.tree.code_of(node).split())
            if written != "blockDim.x" and not self._numbering.is_followed(node):
                found.edits.replace(node, columns)
        for launch in found.launches.read():
            found.launches.set(launch.grid, {0: self._grid(launch, columns)})
            found.launches.set_whole(launch.block, f"dim3({columns}, {parts})")
        return columns, parts, (first, second)

    def _grid(self, launch: Launch, columns: str) -> str:
        """One block for every 32 columns."""
        count = self.found.count_of(launch, self._numbering.numbered())
        if count:
            return f"({count} + {columns} - 1) / {columns}"
        every = times(launch.grid.axis(0), launch.block.axis(0))
        return f"({every} + {columns} - 1) / {columns}"
