# SPDX-License-Identifier: Apache-2.0
"""Products of tiles in which sums stand for the factors and a minimum for the sum: shortest ways, alignments."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import msgspec

from warplens_tools.cuda.facts.accesses import ArrayAccess
from warplens_tools.kernel import KernelView

_EXTREMES = frozenset({"VIADDMNMX", "VIMNMX", "IMNMX", "FMNMX", "VIADDMNMX3", "VIMNMX3", "FMNMX3"})
_EXTREME = re.compile(r"\bf?(?:min|max)f?\s*\(|\?|\bif\s*\(")


class MinPlus(msgspec.Struct, frozen=True):
    """One such product of two tiles in shared memory."""

    line: int
    names: tuple[str, ...]
    #: Loads from shared memory of its line, and minima or maxima of its loop, as compiled.
    loads: int
    extremes: int


def min_plus(view: KernelView) -> Iterator[MinPlus]:
    """Lines of a loop that add two elements of shared memory which other threads want too, with a minimum or maximum of
    the sums in the loop; by line."""
    sass, by_line = view.sass, dict[int, list[ArrayAccess]]()
    for access in view.accesses:
        if access.space == "shared" and access.reads and not access.writes and access.loops:
            by_line.setdefault(access.span.line, []).append(access)
    for line, read in sorted(by_line.items()):
        pairs = [p for p in itertools.pairwise(read) if _are_added(view, line, *p)]
        loop = read[0].loops[-1].span
        if not pairs or not _EXTREME.search(view.said(loop).partition(")")[2]):
            continue
        loads = sass.on_line(line, lambda x: x.opcode == "LDS")
        within = range(loop.line, loop.end_line + 1)
        extremes = {i for n in within for i in sass.on_line(n, lambda x: x.opcode in _EXTREMES)}
        if loads and extremes:
            names = tuple(dict.fromkeys(a.name for p in pairs for a in p))
            yield MinPlus(line, names, len(loads), len(extremes))


def _are_added(view: KernelView, line: int, one: ArrayAccess, other: ArrayAccess) -> bool:
    """Whether they are the sides of a sum, which the loop's variable goes through, and other threads read both."""
    if (one.span.line, one.span.end_line) != (line, line) or one.index == other.index:
        return False
    between = view.text.line_text(line)[one.span.end_column - 1 : other.span.column - 1]
    counter = one.loops[-1].counter
    forms = [a.index for a in (one, other)]
    moved = all(form is not None and bool(counter) and form.mentions(counter) for form in forms)
    return between.strip() == "+" and moved and all(view.reuse.sharing(a) > 1 for a in (one, other))
