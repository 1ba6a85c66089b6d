# SPDX-License-Identifier: Apache-2.0
"""An untrusted workspace is parsed, and nothing in it is built or run."""

from __future__ import annotations

from typing import Any

import msgspec

from warplens.lsp import protocol
from warplens.lsp.server import WarplensServer
from warplens_tools.decode import from_builtins


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.feature(protocol.DID_CHANGE_TRUST)
    def did_change_trust(params: Any) -> None:
        try:
            trusted = from_builtins(params, protocol.Trust).trusted
        except msgspec.ValidationError as error:
            server.log_once(f"{protocol.DID_CHANGE_TRUST}: {error}.")
            return
        if trusted != server.session.trusted:
            server.session.trusted = trusted
            server.status("ready")
            server.analysis.everything()
