# SPDX-License-Identifier: Apache-2.0
"""The running sum of a row, given to the lanes of a warp."""

from __future__ import annotations

from collections.abc import Sequence

from warplens_tools.rewrite.base import REORDERED, RewriteResult
from warplens_tools.rewrite.common.groups import WarpGroup, part_mask
from warplens_tools.rewrite.common.numbering import Numbering
from warplens_tools.rewrite.common.opened import Opened
from warplens_tools.rewrite.common.scans import ScanWriter, guard_stores, read_row_scan, share_beside
from warplens_tools.rewrite.common.warp_rows import number_by_warps


class RowScanWriter(ScanWriter):
    """Writes a thread's scan of its row anew for the lanes of a warp, `step` elements at a time.

    Raises:
        Refused: the kernel scans no row by a thread, or numbers its threads in another way.
    """

    def __init__(self, found: Opened) -> None:
        super().__init__(found, read_row_scan(found))
        numbering = Numbering(found.reader, "x", found.launches.block_value(0))
        numbering.check_whole()
        self.rows = number_by_warps(found, numbering)
        fresh = found.edits.fresh_here
        self.first, self.value, self.mask = fresh("first"), fresh("value"), fresh("lanes")
        self.before, self.offset = fresh("before"), fresh("offset")

    def result(self, title: str, step: str, body: Sequence[str], *definitions: str) -> RewriteResult:
        """All edits, with `body` for every `step` elements of the row."""
        found, scan, rows = self.found, self.scan, self.rows
        head = f"for ({self.index_type} {self.first} = {self.begin}; {self.first} {self.sign} {self.limit}; "
        last = f"__shfl_sync({self.mask}, {self.value}, {rows.width} - 1, {rows.width})"
        carried = f"{scan.fold.place} = {self.joined(scan.fold.place, last)};"
        mask = f"const unsigned {self.mask} = {part_mask(rows.width)};"
        self.put([mask, head + f"{self.first} += {step}) {{", *self.indented([*body, carried]), "}"])
        guard_stores(found, scan, f"{rows.lane} == 0")
        group = WarpGroup(found.style, rows.width, rows.lane)
        share_beside(found, scan, group).define_helpers(rows.definition, *definitions)
        caveat = "" if scan.is_exact else REORDERED
        return RewriteResult(found.all_edits(), title=title, caveat=caveat)

    def steps(self, other: str) -> list[str]:
        """Every lane's value joined with those of the lanes before it, one of which is called `other`."""
        offset, value, width = self.offset, self.value, self.rows.width
        before = f"__shfl_up_sync({self.mask}, {value}, {offset}, {width})"
        inside = [
            f"const {self.scan.type} {other} = {before};",
            f"if ({self.rows.lane} >= {offset}) {value} = {self.joined(other, value)};",
        ]
        return [
            f"for (int {offset} = 1; {offset} < {width}; {offset} *= 2) {{",
            *self.indented(inside),
            "}",
        ]
