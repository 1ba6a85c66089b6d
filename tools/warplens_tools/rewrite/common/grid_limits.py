# SPDX-License-Identifier: Apache-2.0
"""Grids that an edit makes too long along y or z, where the original has the same length along x.

Along x a grid has 2^31 - 1 blocks at most, along y and z 65535 (CUDA programming guide, technical specifications).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import msgspec

from warplens_tools.cuda.model import Kernel, LaunchSite, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite.base import Refused, Rewrite, RewriteResult, Target
from warplens_tools.rewrite.common.launches import Launches
from warplens_tools.text import SourceText, TextEdit

#: Blocks along y and along z.
MOST = 65535
#: A block does several of what such an extent counts, or it is bounded.
_LESS = re.compile(r"/|>>|\bmin\s*\(|\bmin\s*<")


def launchable(rewrite: Rewrite) -> Rewrite:
    """The rewrite, which refuses to make a grid that a run of the program cannot launch along y or z."""

    @functools.wraps(rewrite.apply)
    def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
        result = rewrite.apply(text, model, kernel, target)
        if not any(_lists_sizes(e, kernel) for e in result.edits):
            return result
        try:
            _check(text, model, kernel, result)
        except Refused as why:
            return RewriteResult(refused=str(why))
        return result

    return msgspec.structs.replace(rewrite, apply=apply)


def _lists_sizes(edit: TextEdit, kernel: Kernel) -> bool:
    """Whether an edit outside of the kernel writes several extents."""
    return "," in edit.new_text and not kernel.span.contains(edit.span)


def _check(text: SourceText, model: SourceModel, kernel: Kernel, result: RewriteResult) -> None:
    """Raises `Refused` where a launch is too long along y or z now, or for other lengths than this run's."""
    after = text.apply(list(result.edits))
    again = parse(after, model.path)
    mine = again.kernel(kernel.qualified_name)
    if mine is None:
        return
    before = Launches(text, model, kernel)
    launches = Launches(after, again, mine)
    for old, new in zip(before.sites, launches.sites, strict=False):
        known = max([0, *_along_others(new)])
        if known > MOST and known > max([0, *_along_others(old)]):
            raise Refused(f"its grid would have {known} blocks along y or z, which hold at most {MOST}")
    for old, launch in zip(before.sites, launches.read(), strict=False):
        first, *others = old.grid_value
        if launch.site.grid_value[0] is None or first is not None or None in others:
            continue
        for place in (1, 2):
            extent = launches.meaning(launch.grid.axis(place), launch)
            if launch.site.grid_value[place] is None and not _LESS.search(extent):
                raise Refused(
                    f"its grid would follow {extent} along {'xyz'[place]}, which holds at most {MOST} blocks"
                )


def _along_others(site: LaunchSite) -> Iterator[int]:
    """The extents along y and z that are known, those of a run without arguments too."""
    for extents in (site.grid_value, *((site.untold[0],) if site.untold is not None else ())):
        yield from (value for value in extents[1:] if value is not None)
