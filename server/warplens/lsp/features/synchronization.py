# SPDX-License-Identifier: Apache-2.0
"""Follows documents as they are opened, edited, saved and closed."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types

from warplens.lsp import uris
from warplens.lsp.server import WarplensServer

_HEADERS = (".cuh", ".h", ".hpp", ".hh", ".inc")


def register(server: WarplensServer) -> None:
    """Register with the server."""
    session, analysis = server.session, server.analysis

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        session.open(item.uri, item.language_id, item.version, item.text)
        session.look_at(uris.key(item.uri))
        analysis.opened(uris.key(item.uri))

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        file = session.file(params.text_document.uri)
        version = params.text_document.version
        if file is None or version < file.document.version:
            return
        session.look_at(uris.key(params.text_document.uri))
        for change in params.content_changes:
            session.edit(file.document.uri, session.positions.change(file.document.text, change))
        file.document.version = version
        analysis.typed(uris.key(params.text_document.uri))

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        key = uris.key(params.text_document.uri)
        session.look_at(key)
        analysis.saved(key)
        if key.endswith(_HEADERS):
            analysis.dependency_changed(Path(key))

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        analysis.closed(uris.key(params.text_document.uri))
