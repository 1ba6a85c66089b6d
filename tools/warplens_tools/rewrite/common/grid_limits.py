# SPDX-License-Identifier: Apache-2.0
"""Grids that an edit makes too long along y or z, where the original has the same length along x: turned round.

A length that is the run's own may be any: one that lay along x lies there after the edit, too, whatever else would, but
where a block does several of what it counts.

Along x a grid has 2^31 - 1 blocks at most, along y and z 65535 (CUDA programming guide, technical specifications).
"""

from __future__ import annotations

import functools
import re

import msgspec

from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.launches import AXES, Launch, Launches
from warplens_tools.rewrite.common.reading import WORD
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
    """The result as it is, or with the axis that would be too long along x.

    Raises:
        Refused: a launch is too long along y or z, or for other lengths than this run's, and x could not take that.
    """
    after = text.apply(list(result.edits))
    again = parse(after, model.path)
    mine = again.same(kernel, model)
    before = Launches(text, model, kernel)
    why = _why(before, Launches(after, again, mine)) if mine is not None else None
    if why is None or mine is None:
        return result
    place, said = why
    turned = _exchanged(after, again, mine, place)
    last = parse(turned, model.path)
    there = last.same(kernel, model) if turned is not after else None
    if there is None or _why(before, Launches(turned, last, there)) is not None:
        raise Refused(said)
    edits = between(text, turned)
    if not edits:
        raise Refused(said)
    return msgspec.structs.replace(result, edits=edits)


def _why(before: Launches, launches: Launches) -> tuple[int, str] | None:
    """The axis along which a launch is too long now, and that in words; None where none is."""
    try:
        found, olds = launches.read(), before.read()
    except Refused:
        # nothing is launched here, or in a way that no edit could have changed
        return None
    for old, launch in zip(olds, found, strict=False):
        for place in (1, 2):
            known, was = (_extent(one.site, place) for one in (launch, old))
            if known > max(MOST, was):
                said = f"its grid would have {known} blocks along {AXES[place]}, which holds at most {MOST}"
                return place, said
        if old.site.grid_value[0] is not None:
            continue
        first, *others = (before.meaning(old.grid.axis(place), old) for place in range(3))
        for place in (1, 2):
            extent = launches.meaning(launch.grid.axis(place), launch)
            free = launch.site.grid_value[place] is None and not _LESS.search(extent)
            if (
                free
                and extent not in others
                and _counted_by(before, old, first) & _counted_by(before, old, extent)
            ):
                said = (
                    f"its grid would follow {extent} along {AXES[place]}, which holds at most {MOST} blocks"
                )
                return place, said
    return None


def _exchanged(text: SourceText, model: SourceModel, kernel: Kernel, place: int) -> SourceText:
    """The file with another axis of the kernel's grid along x, and the others in their order behind it.

    Raises:
        Refused: other code than the kernel's asks for the number of a block.
    """
    kernels = [one.span for one in model.kernels]
    lines = (n for n, line in enumerate(text.text.splitlines(), 1) if _NUMBER.search(line))
    if any(not any(span.line <= n <= span.end_line for span in kernels) for n in lines):
        raise Refused("other code than the kernel asks for the number of a block")
    order = (place, *(axis for axis in range(place) if axis != place), *range(place + 1, 3))
    turned = {AXES[old]: AXES[new] for new, old in enumerate(order)}
    written = text.slice(kernel.span)
    new = _NUMBER.sub(lambda m: f"{m[1]}.{turned.get(m[2], m[2])}", written)
    launches = Launches(text, model, kernel)
    for launch in launches.read():
        moved = {new: launch.grid.axis(old) for new, old in enumerate(order) if new != old}
        launches.set(launch.grid, moved)
    return text.apply([TextEdit(kernel.span, new), *launches.edits()])


def _counted_by(launches: Launches, launch: Launch, extent: str) -> set[str]:
    """The names in an extent, and in what its variables were declared as."""
    found, left = set[str](), set(WORD.findall(extent))
    while left:
        found |= left
        left = {word for name in left for word in WORD.findall(launches.meaning(name, launch))} - found
    return found


def _extent(site: LaunchSite, place: int) -> int:
    """An extent of a grid, that of a run without arguments too; 0 where it is not known."""
    grids = (site.grid_value, *((site.untold[0],) if site.untold is not None else ()))
    return max((grid[place] or 0 for grid in grids), default=0)
