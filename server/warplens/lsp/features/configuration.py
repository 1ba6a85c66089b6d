# SPDX-License-Identifier: Apache-2.0
"""Settings of the editor's `warplens` section: asked for where the client can be asked, else pushed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from warplens.lsp.server import WarplensServer

SECTION = "warplens"
#: A client that does not answer must not keep files from being checked.
_PATIENCE_SECONDS = 3.0


def register(server: WarplensServer) -> None:
    """Register with the server."""
    session = server.session

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:  # noqa: ARG001 - the protocol's signature
        session.configure(await _pull(server, session.editor))
        session.configured.set()
        server.status("ready")
        await _register(server)
        for listener in server.on_ready:
            server.guard(listener)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def did_change_configuration(params: types.DidChangeConfigurationParams) -> None:
        pushed = _section(params.settings)
        editor = await _pull(server, pushed if pushed is not None else session.editor)
        if editor != session.editor:
            session.configure(editor)
            server.analysis.everything()


async def _pull(server: WarplensServer, otherwise: Mapping[str, Any]) -> Mapping[str, Any]:
    workspace = server.session.capabilities.workspace
    if workspace is None or not workspace.configuration:
        return otherwise
    item = types.ConfigurationItem(section=SECTION)
    try:
        answer = await asyncio.wait_for(
            server.workspace_configuration_async(types.ConfigurationParams([item])), _PATIENCE_SECONDS
        )
    except (TimeoutError, JsonRpcException) as error:
        server.log_once(f"The client did not give its settings: {error or 'no answer'}.")
        return otherwise
    return answer[0] if answer and isinstance(answer[0], Mapping) else otherwise


def _section(settings: Any) -> Mapping[str, Any] | None:
    """The section of pushed settings, whether the client wrapped it in its name or not."""
    if not isinstance(settings, Mapping):
        return None
    inner = settings.get(SECTION, settings)
    return inner if isinstance(inner, Mapping) else None


async def _register(server: WarplensServer) -> None:
    """Clients tell of changed settings only if asked to."""
    workspace = server.session.capabilities.workspace
    change = workspace.did_change_configuration if workspace is not None else None
    if change is None or not change.dynamic_registration:
        return
    await server.register_capability(
        types.WORKSPACE_DID_CHANGE_CONFIGURATION, types.DidChangeConfigurationRegistrationOptions(SECTION)
    )
