# SPDX-License-Identifier: Apache-2.0
"""Takes what the client says of itself: capabilities, options, folders, position encoding."""

from __future__ import annotations

from typing import Any

import msgspec
from lsprotocol import types

from warplens.lsp import uris
from warplens.lsp.convert import Positions, enum_value
from warplens.lsp.protocol import InitializationOptions
from warplens.lsp.server import WarplensServer
from warplens_tools.decode import from_builtins


def register(server: WarplensServer) -> None:
    """Register with the server."""
    session = server.session

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        session.capabilities = params.capabilities
        session.positions = Positions(enum_value(server.workspace.position_encoding))
        session.options = _options(server, params.initialization_options)
        session.trusted = session.options.trusted
        session.editor = session.options.settings
        folders = [folder.uri for folder in params.workspace_folders or []]
        if not folders and params.root_uri:
            folders = [params.root_uri]
        session.roots = [path for path in map(uris.to_path, folders) if path is not None]

    @server.feature(types.SHUTDOWN)
    def shutdown(params: None) -> None:  # noqa: ARG001 - the protocol's signature
        server.stop()


def _options(server: WarplensServer, value: Any) -> InitializationOptions:
    """Options that cannot be read must not be taken as trust."""
    try:
        return from_builtins(value if value is not None else {}, InitializationOptions)
    except msgspec.ValidationError as error:
        server.log_once(f"initializationOptions: {error}; the workspace is taken as not trusted.")
        return InitializationOptions(trusted=False)
