# SPDX-License-Identifier: Apache-2.0
"""Hover: a kernel's evidence on its name and launches, a finding's on its lines, a CUTLASS name's card."""

from __future__ import annotations

import asyncio

from lsprotocol import types

from warplens.lsp import markdown
from warplens.lsp.convert import finding_span
from warplens.lsp.cute_symbols import card_page, name_at, word_at
from warplens.lsp.server import WarplensServer
from warplens.lsp.view import View
from warplens.service.report import KernelReport
from warplens_tools.text import SourceText, Span


def register(server: WarplensServer) -> None:
    """Register with the server."""
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        file, view = session.file(uri), await server.analysis.view(uri)
        if file is None or view is None:
            return None
        text = file.document.text
        line, column = session.positions.point(text, params.position)
        here = Span(line, column, line, column)
        findings = [f for f in view.report.findings if finding_span(f).contains(here)]
        kernel = _kernel(view, text, line, column)
        parts = [markdown.kernel_card(view, kernel)] if kernel is not None else []
        parts += [
            markdown.finding_section(f, message=False)
            for f in findings
            if kernel is None or f.kernel != kernel.qualified_name
        ]
        name = name_at(text, line, column) if kernel is None else None
        card = await asyncio.to_thread(card_page, name) if name is not None else ""
        parts += [card] if card else []
        if not parts:
            return None
        content = types.MarkupContent(types.MarkupKind.Markdown, "\n\n---\n\n".join(parts))
        return types.Hover(content, session.positions.range(text, word_at(text, line, column)))


def _kernel(view: View, text: SourceText, line: int, column: int) -> KernelReport | None:
    """The kernel whose name stands at a position, in its definition or in a launch."""
    word = text.slice(word_at(text, line, column))
    return next(
        (
            k
            for k in view.report.kernels
            if k.name == word and (line == k.name_line or line in k.launch_lines)
        ),
        None,
    )
