# SPDX-License-Identifier: Apache-2.0
"""Go to definition, into the indexed corpora, for CUTLASS/CuTe names in the user's code."""

from __future__ import annotations

import asyncio

from lsprotocol import types

from warplens.lsp import uris
from warplens.lsp.cute_symbols import name_at
from warplens.lsp.server import WarplensServer
from warplens_cutlass.lookup import Location, definitions_of

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
        found = name_at(text, *session.positions.point(text, params.position))
        if found is None:
            return None
        places = await asyncio.to_thread(definitions_of, found.name, limit=_MOST)
        return [location(place) for place in places] or None


def location(place: Location) -> types.Location:
    """A place in a corpus; the start of its line, since a line's text is not at hand."""
    at = types.Position(place.line - 1, 0)
    return types.Location(uris.from_path(place.file), types.Range(at, at))
