# SPDX-License-Identifier: Apache-2.0
"""Remembers that the user took a quick fix: what is taken counts for what is tried."""

from __future__ import annotations

import asyncio
from typing import Any

from lsprotocol import types

from warplens.lsp import protocol, uris
from warplens.lsp.commands import answer, argument
from warplens.lsp.server import WarplensServer


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.FIX_APPLIED)
    async def fix_applied(params: types.ExecuteCommandParams) -> Any:
        return await answer(server, _remember(server, params))


async def _remember(server: WarplensServer, params: types.ExecuteCommandParams) -> None:
    applied = argument(params, protocol.FixAndProveArguments)
    path = uris.to_path(applied.uri)
    if path is not None:
        judging = server.judging(path)
        await asyncio.to_thread(judging.remember, path, applied.kernel, applied.rewrite, applied.code)
