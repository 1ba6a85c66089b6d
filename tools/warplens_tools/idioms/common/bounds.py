# SPDX-License-Identifier: Apache-2.0
"""Launch bounds of a kernel whose block is an idiom's own."""

from __future__ import annotations

from warplens_tools.rewrite.common.reading import View
from warplens_tools.text import TextEdit


def bounded(view: View, threads: str, blocks: str = "") -> TextEdit:
    """The edit that tells the compiler how many threads a block has, and of how many blocks the registers must do."""
    said = f"__launch_bounds__({threads}{f', {blocks}' if blocks else ''})"
    known = view.kernel.launch_bounds
    if known is not None and known.span is not None:
        return TextEdit(known.span, said)
    at = view.text.offset(view.kernel.name_span.line, view.kernel.name_span.column)
    return TextEdit(view.text.span(at, at), f"{said} ")
