# SPDX-License-Identifier: Apache-2.0
"""The outline: the file's kernels."""

from __future__ import annotations

from lsprotocol import types

from warplens.lsp.server import WarplensServer
from warplens.present import words
from warplens_tools.text import Span


def register(server: WarplensServer) -> None:
    """Register with the server."""
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    async def symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        uri = params.text_document.uri
        file, view = session.file(uri), await server.analysis.view(uri)
        if file is None or view is None:
            return []
        text, found = file.document.text, []
        for kernel in view.report.kernels:
            end = max(kernel.end_line, kernel.line)
            whole = Span(kernel.line, 1, end, len(text.line_text(end)) + 1)
            name = Span(kernel.name_line, kernel.column, kernel.name_line, kernel.column + len(kernel.name))
            found.append(
                types.DocumentSymbol(
                    kernel.qualified_name,
                    types.SymbolKind.Function,
                    session.positions.range(text, whole),
                    session.positions.range(text, name),
                    detail=words.bound(kernel),
                )
            )
        return found
