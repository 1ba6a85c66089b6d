# SPDX-License-Identifier: Apache-2.0
"""Hints after a kernel's name: registers per thread, occupancy. Each kind is switched on its own."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types

from warplens.lsp.server import WarplensServer
from warplens.lsp.words import BEFORE_EDIT
from warplens.present import words
from warplens.service.report import KernelReport
from warplens.settings import Hints


def register(server: WarplensServer) -> None:
    """Register with the server."""
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    async def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        uri = params.text_document.uri
        file, view = session.file(uri), await server.analysis.view(uri)
        if file is None or view is None:
            return []
        hints = session.settings(file.document.path).hints
        text, first, last = file.document.text, params.range.start.line, params.range.end.line
        found: list[types.InlayHint] = []
        for kernel in view.report.kernels:
            if not first <= kernel.name_line - 1 <= last:
                continue
            where = session.positions.position(text, kernel.name_line, kernel.column + len(kernel.name))
            stale = BEFORE_EDIT if kernel.qualified_name in view.edited else ""
            for label, tooltip in _labels(kernel, hints):
                found.append(types.InlayHint(where, label + stale, tooltip=tooltip, padding_left=True))
        return found


def _labels(kernel: KernelReport, hints: Hints) -> Iterator[tuple[str, str]]:
    resources = kernel.resources
    if resources is None:
        return
    if hints.registers and resources.registers is not None:
        spilled = (resources.spill_store_bytes or 0) + (resources.spill_load_bytes or 0)
        yield (
            f"{resources.registers} registers" + (f", {spilled} B spilled" if spilled else ""),
            f"registers per thread for {resources.arch}{words.of_instantiation(resources)}",
        )
    if hints.occupancy and resources.occupancy is not None:
        yield (f"occupancy {resources.occupancy:.0%}", words.occupancy(resources))
