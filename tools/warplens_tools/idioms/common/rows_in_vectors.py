# SPDX-License-Identifier: Apache-2.0
"""The step of the idioms of rows: passes by which threads share a row, with its vectors kept between them."""

from __future__ import annotations

from warplens_tools.cuda.facts.aliasing import same_buffer
from warplens_tools.idioms.common.vector_rows import VectorRows
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.held_rows import kept_rows
from warplens_tools.rewrite.common.passes import read_groups
from warplens_tools.rewrite.common.reading import View, refusing
from warplens_tools.rewrite.common.style import Style
from warplens_tools.rewrite.common.vectors import CAVEAT as AT_AN_OFFSET
from warplens_tools.rewrite.hold_row import CAVEAT, may_overlap
from warplens_tools.text import TextEdit

#: Vectors that a thread keeps: of four floats each, rows of 4096 for blocks of 256.
_HELD, _HELD_BY_WARP = 4, 8
_WARP = 32


def _apply(view: View, target: Target) -> RewriteResult:
    style, edits, overlaps = Style(view), list[TextEdit](), False
    taken, names = same_buffer(view.file, view.model, view.kernel), dict[str, str]()
    held, vectors, why = "", dict[int, str](), "no pass reads again what one before it read or stored"
    for group in read_groups(view, target.lines):
        rows = kept_rows(view, group, taken, target.names)
        if not rows:
            continue
        try:
            writer = VectorRows(view, style, group, rows, names)
        except Refused as error:
            why = str(error)
            continue
        if not held:
            lanes = group.passes[0].stride.value
            count = _HELD_BY_WARP if lanes is not None and lanes <= _WARP else _HELD
            held = style.constant("kHeldVectors", str(count), "vectors of a row that a thread keeps")
        if writer.count not in vectors:
            vectors[writer.count] = style.constant("kElements", str(writer.count), "elements of a vector")
        overlaps = overlaps or may_overlap(view, group, rows)
        edits += writer.named(held, vectors[writer.count]).edits()
    if not edits:
        raise Refused(why)
    title = "Keep vectors of the row in registers between passes"
    caveat = "; ".join([*([CAVEAT] if overlaps else []), AT_AN_OFFSET])
    return RewriteResult((style.constants(), *edits), title=title, caveat=caveat)


VECTORS_KEPT = Rewrite("vectors-kept", "Keep vectors of a row in registers", refusing(_apply))
#: Values of the constants that it brings.
RANGES = {"kHeldVectors": (1, 2, 4, 8), "kElements": (), "kVector": ()}
