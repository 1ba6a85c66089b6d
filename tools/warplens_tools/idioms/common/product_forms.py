# SPDX-License-Identifier: Apache-2.0
"""The forms in which kernels multiply matrices, each brought to the one in which a thread has one output of its own:
as it stands, tiled through shared memory already, with a loop over a row's outputs, or numbered in another order.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import msgspec

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.parse import parse
from warplens_tools.rewrite import axes_in_order, loop_into_threads, stride_into_grid
from warplens_tools.rewrite.base import Apply, Refused, RewriteResult, Target
from warplens_tools.rewrite.common.flat_tiles import untiled
from warplens_tools.rewrite.common.reading import View, has_barrier
from warplens_tools.rewrite.common.texts import between
from warplens_tools.text import SourceText, TextEdit

#: What makes room: outputs of a row that a thread walks, axes that threads and blocks number apart, blocks that stride.
_BEFORE = (loop_into_threads.REWRITE, axes_in_order.REWRITE, stride_into_grid.REWRITE)


def product_forms(edit: Apply, module: str) -> Apply:
    """`edit` on the kernel as it stands, or else on its other forms; `module` is the file and the page of the idiom."""

    @functools.wraps(edit)
    def apply(text: SourceText, model: SourceModel, kernel: Kernel, target: Target) -> RewriteResult:
        refused = RewriteResult(refused="")
        for before in _forms(text, model, kernel):
            plain = before is text
            again = model if plain else parse(before, model.path)
            mine = kernel if plain else again.same(kernel, model)
            if mine is None or mine.broken:
                continue
            found = edit(before, again, mine, target)
            if found.edits:
                after = before.apply(list(found.edits))
                return found if plain else msgspec.structs.replace(found, edits=between(text, after))
            refused = refused if refused.refused else found
        return refused if refused.refused else RewriteResult(refused="the kernel multiplies no matrices")

    apply.__module__ = module
    return apply


def _forms(text: SourceText, model: SourceModel, kernel: Kernel) -> Iterator[SourceText]:
    """The file with the kernel in each of its forms, as far as it has them."""
    try:
        view = View(text, model, kernel)
        together = has_barrier(view) or any(a.space == "shared" for a in kernel.arrays)
        untiled = _untiled(view) if together else None
    except (Refused, RecursionError):
        together, untiled = False, None
    if together:
        if untiled is not None:
            yield untiled
        return
    yield text
    for before in _BEFORE:
        opened = before.apply(text, model, kernel, Target())
        if opened.edits:
            yield text.apply(list(opened.edits))


def _untiled(view: View) -> SourceText | None:
    """The file with a loop over tiles as the plain loop that it stands for; None where it is none."""
    try:
        found = untiled(view)
    except Refused:
        return None
    return view.text.apply([TextEdit(view.text.span(view.start(view.body), view.end(view.body)), found.text)])
