# SPDX-License-Identifier: Apache-2.0
"""Asks the client to fetch lenses and hints again when an analysis has finished."""

from __future__ import annotations

import asyncio

from pygls.exceptions import JsonRpcException

from warplens.lsp.server import WarplensServer

#: Partial results follow each other closely; one refresh serves them all.
_GATHER_SECONDS = 0.05


def register(server: WarplensServer) -> None:
    """Register with the server."""
    waiting: list[asyncio.TimerHandle] = []
    shown: dict[str, object] = {}

    def changed(key: str) -> None:
        view = server.session.view(key)
        state = (view.report.kernels, view.report.findings, view.edited) if view is not None else None
        if shown.get(key) == state:
            return
        shown[key] = state
        if not waiting:
            waiting.append(asyncio.get_running_loop().call_later(_GATHER_SECONDS, send))

    def send() -> None:
        waiting.clear()
        server.spawn(_refresh(server))

    server.analysis.changed.append(changed)


async def _refresh(server: WarplensServer) -> None:
    workspace = server.session.capabilities.workspace
    if workspace is None:
        return
    try:
        if workspace.code_lens is not None and workspace.code_lens.refresh_support:
            await server.workspace_code_lens_refresh_async(None)
        if workspace.inlay_hint is not None and workspace.inlay_hint.refresh_support:
            await server.workspace_inlay_hint_refresh_async(None)
    except JsonRpcException as error:
        server.log_once(f"The client declined to refresh: {error}.")
