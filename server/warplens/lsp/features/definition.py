# SPDX-License-Identifier: Apache-2.0
"""Go to definition: of a kernel from its launch, and of CUTLASS/CuTe names, in the indexed corpora."""

from __future__ import annotations

import asyncio

from lsprotocol import types

from warplens.lsp import uris
from warplens.lsp.cute_symbols import name_at, word_at
from warplens.lsp.server import WarplensServer
from warplens.service.report import KernelReport
from warplens_cutlass.lookup import Location, definitions_of
from warplens_tools.text import Span

_MOST = 8


def register(server: WarplensServer) -> None:
    """Register with the server."""
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    async def definition(params: types.DefinitionParams) -> list[types.Location] | None:
        file = session.file(params.text_document.uri)
        if file is None:
            return None
        text = file.document.text
        line, column = session.positions.point(text, params.position)
        kernel = await _kernel(server, params.text_document.uri, line)
        if kernel is not None and text.slice(word_at(text, line, column)) == kernel.name:
            at = Span(kernel.name_line, kernel.column, kernel.name_line, kernel.column + len(kernel.name))
            return [types.Location(file.document.uri, session.positions.range(text, at))]
        found = name_at(text, *session.positions.point(text, params.position))
        if found is None:
            return None
        places = await asyncio.to_thread(definitions_of, found.name, limit=_MOST)
        return [location(place) for place in places] or None


async def _kernel(server: WarplensServer, uri: str, line: int) -> KernelReport | None:
    """The kernel that is launched on a line."""
    view = await server.analysis.view(uri)
    return (
        next((k for k in view.report.kernels if line in k.launch_lines), None) if view is not None else None
    )


def location(place: Location) -> types.Location:
    """A place in a corpus; the start of its line, since a line's text is not at hand."""
    at = types.Position(place.line - 1, 0)
    return types.Location(uris.from_path(place.file), types.Range(at, at))
