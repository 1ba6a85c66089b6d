# SPDX-License-Identifier: Apache-2.0
"""What is on screen is checked first, where the client says what that is."""

from __future__ import annotations

from typing import Any

import msgspec

from warplens.lsp import protocol, uris
from warplens.lsp.server import WarplensServer
from warplens_tools.decode import from_builtins


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.feature(protocol.DID_CHANGE_VISIBLE)
    def did_change_visible(params: Any) -> None:
        try:
            shown = from_builtins(params, protocol.Visible).uris
        except msgspec.ValidationError as error:
            server.log_once(f"{protocol.DID_CHANGE_VISIBLE}: {error}.")
            return
        server.session.visible = frozenset(map(uris.key, shown))
