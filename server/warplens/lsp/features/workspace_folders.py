# SPDX-License-Identifier: Apache-2.0
"""Several folders in one window: one service per folder."""

from __future__ import annotations

from lsprotocol import types

from warplens.lsp import uris
from warplens.lsp.server import WarplensServer


def register(server: WarplensServer) -> None:
    """Register with the server."""
    session = server.session

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def did_change_workspace_folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        gone = {uris.to_path(folder.uri) for folder in params.event.removed}
        new = [uris.to_path(folder.uri) for folder in params.event.added]
        roots = [root for root in session.roots if root not in gone]
        session.roots = roots + [path for path in new if path is not None and path not in roots]
        session.forget_settings()
        for listener in server.on_ready:
            server.guard(listener)
