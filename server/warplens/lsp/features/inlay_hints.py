# SPDX-License-Identifier: Apache-2.0
"""One short hint behind a kernel's signature: registers per thread, and occupancy where no lens says it."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types

from warplens.lsp.server import WarplensServer
from warplens.lsp.words import BEFORE_EDIT
from warplens.present import words
from warplens.service.report import KernelReport
from warplens.settings import Hints
from warplens_tools.text import SourceText

#: Lines that a signature may have.
_MOST_LINES = 40


def register(server: WarplensServer) -> None:
    """Register with the server."""
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    async def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        uri = params.text_document.uri
        file, view = session.file(uri), await server.analysis.view(uri)
        if file is None or view is None:
            return []
        settings = session.settings(file.document.path)
        hints = settings.hints
        text, first, last = file.document.text, params.range.start.line, params.range.end.line
        found: list[types.InlayHint] = []
        for kernel in view.report.kernels:
            line = _signature_end(text, kernel)
            labels = dict(_labels(kernel, hints, lens=settings.code_lens))
            if not labels or not first <= line - 1 <= last:
                continue
            where = session.positions.position(text, line, len(text.line_text(line).rstrip()) + 1)
            stale = BEFORE_EDIT if kernel.qualified_name in view.edited else ""
            label, tooltip = " · ".join(labels), "; ".join(labels.values())
            found.append(types.InlayHint(where, label + stale, tooltip=tooltip + stale, padding_left=True))
        return found


def _signature_end(text: SourceText, kernel: KernelReport) -> int:
    """The line on which a kernel's parameters end."""
    depth = 0
    for line in range(kernel.name_line, min(kernel.end_line, kernel.name_line + _MOST_LINES) + 1):
        start = kernel.column - 1 + len(kernel.name) if line == kernel.name_line else 0
        for character in text.line_text(line)[start:]:
            depth += (character == "(") - (character == ")")
            if character == ")" and depth == 0:
                return line
    return kernel.name_line


def _labels(kernel: KernelReport, hints: Hints, *, lens: bool) -> Iterator[tuple[str, str]]:
    resources = kernel.resources
    if resources is None:
        return
    if hints.registers and resources.registers is not None:
        spilled = (resources.spill_store_bytes or 0) + (resources.spill_load_bytes or 0)
        yield (
            f"{resources.registers} regs" + (", spills" if spilled else ""),
            f"{resources.registers} registers per thread"
            + (f", {spilled} B spilled" if spilled else "")
            + f", for {resources.arch}{words.of_instantiation(resources)}",
        )
    if hints.occupancy and not lens and resources.occupancy is not None:
        yield f"occ {resources.occupancy:.0%}", words.occupancy(resources)
