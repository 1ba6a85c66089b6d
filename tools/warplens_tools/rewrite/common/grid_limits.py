# SPDX-License-Identifier: Apache-2.0
"""Grids that an edit makes too long along y or z, where the original has the same length along x: turned round.

Along x a grid has 2^31 - 1 blocks at most, along y and z 65535 (CUDA programming guide, technical specifications).
"""

from __future__ import annotations

import functools
import re

import msgspec

from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.launches import AXES, Launches
from warplens_tools.rewrite.common.texts import between
from warplens_tools.text import SourceText, TextEdit

#: Blocks along y and along z.
MOST = 65535
#: A block does several of what such an extent counts, or it is bounded.
_LESS = re.compile(r"/|>>|\bmin\s*\(|\bmin\s*<")
_NUMBER = re.compile(r"\b(blockIdx|gridDim)\s*\.\s*([xyz])\b")


def launchable(rewrite: Rewrite) -> Rewrite:
    """The rewrite, which makes no grid that a run of the program cannot launch along y or z: what is too long there
    goes along x, or it refuses.
    """

    @functools.wraps(rewrite.apply)
    def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
        result = rewrite.apply(text, model, kernel, target)
        if not any(_lists_sizes(e, kernel) for e in result.edits):
            return result
        try:
            return _launched(text, model, kernel, result)
        except Refused as why:
            return RewriteResult(refused=str(why))

    return msgspec.structs.replace(rewrite, apply=apply)


def _lists_sizes(edit: TextEdit, kernel: Kernel) -> bool:
    """Whether an edit outside of the kernel writes several extents."""
    return "," in edit.new_text and not kernel.span.contains(edit.span)


def _launched(text: SourceText, model: SourceModel, kernel: Kernel, result: RewriteResult) -> RewriteResult:
    """The result as it is, or with the axis that would be too long exchanged with x.

    Raises:
        Refused: a launch is too long along y or z, or for other lengths than this run's, and x could not take that.
    """
    after = text.apply(list(result.edits))
    again = parse(after, model.path)
    mine = again.kernel(kernel.qualified_name)
    before = Launches(text, model, kernel)
    why = _why(before, Launches(after, again, mine)) if mine is not None else None
    if why is None or mine is None:
        return result
    place, said = why
    turned = _exchanged(after, again, mine, place)
    model = parse(turned, model.path)
    there = model.kernel(kernel.qualified_name) if turned is not after else None
    if there is None or _why(before, Launches(turned, model, there)) is not None:
        raise Refused(said)
    edits = between(text, turned)
    if not edits:
        raise Refused(said)
    return msgspec.structs.replace(result, edits=edits)


def _why(before: Launches, launches: Launches) -> tuple[int, str] | None:
    """The axis along which a launch is too long now, and that in words; None where none is."""
    try:
        found = launches.read()
    except Refused:
        # nothing is launched here, or in a way that no edit could have changed
        return None
    for old, launch in zip(before.sites, found, strict=False):
        for place in (1, 2):
            known, was = (_extent(site, place) for site in (launch.site, old))
            if known > max(MOST, was):
                said = f"its grid would have {known} blocks along {AXES[place]}, which holds at most {MOST}"
                return place, said
        first, *others = old.grid_value
        if launch.site.grid_value[0] is None or first is not None or None in others:
            continue
        for place in (1, 2):
            extent = launches.meaning(launch.grid.axis(place), launch)
            if launch.site.grid_value[place] is None and not _LESS.search(extent):
                said = (
                    f"its grid would follow {extent} along {AXES[place]}, which holds at most {MOST} blocks"
                )
                return place, said
    return None


def _exchanged(text: SourceText, model: SourceModel, kernel: Kernel, place: int) -> SourceText:
    """The file with x and another axis of the kernel's grid exchanged.

    Raises:
        Refused: other code than the kernel's asks for the number of a block.
    """
    kernels = [one.span for one in model.kernels]
    lines = (n for n, line in enumerate(text.text.splitlines(), 1) if _NUMBER.search(line))
    if any(not any(span.line <= n <= span.end_line for span in kernels) for n in lines):
        raise Refused("other code than the kernel asks for the number of a block")
    turned = {"x": AXES[place], AXES[place]: "x"}
    written = text.slice(kernel.span)
    new = _NUMBER.sub(lambda m: f"{m[1]}.{turned.get(m[2], m[2])}", written)
    launches = Launches(text, model, kernel)
    for launch in launches.read():
        launches.set(launch.grid, {0: launch.grid.axis(place), place: launch.grid.axis(0)})
    return text.apply([TextEdit(kernel.span, new), *launches.edits()])


def _extent(site: LaunchSite, place: int) -> int:
    """An extent of a grid, that of a run without arguments too; 0 where it is not known."""
    grids = (site.grid_value, *((site.untold[0],) if site.untold is not None else ()))
    return max((grid[place] or 0 for grid in grids), default=0)
