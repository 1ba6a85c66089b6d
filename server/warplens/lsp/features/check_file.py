# SPDX-License-Identifier: Apache-2.0
"""*Check this file now*: as on a save."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from warplens.lsp import protocol, uris
from warplens.lsp.commands import answer, argument
from warplens.lsp.server import WarplensServer
from warplens.present import words
from warplens_tools.errors import InputError


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.CHECK_FILE)
    async def check_file(params: types.ExecuteCommandParams) -> Any:
        return await answer(server, _check(server, params))


async def _check(server: WarplensServer, params: types.ExecuteCommandParams) -> None:
    key = uris.key(argument(params, protocol.FileArguments).uri)
    if key not in server.session.files:
        raise InputError("the file is not open in the editor")
    server.session.look_at(key)
    name = uris.display_name(server.session.files[key].document.uri)
    if await server.analysis.check(key):
        view = server.session.view(key)
        server.notice(f"{name}: {words.outcome(view.report) if view is not None else 'closed'}.")
    elif not server.session.trusted:
        server.notice(f"{name} is checked from its text alone: the workspace is not trusted.")
