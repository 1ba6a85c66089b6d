# SPDX-License-Identifier: Apache-2.0
"""*Doctor*: what this machine has, what is missing, and how to get it, as a page."""

from __future__ import annotations

import asyncio
from typing import Any

from lsprotocol import types

from warplens.lsp import markdown, protocol
from warplens.lsp.commands import answer_page
from warplens.lsp.server import WarplensServer


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.DOCTOR)
    async def doctor(params: types.ExecuteCommandParams) -> Any:  # noqa: ARG001 - takes no argument
        async def page() -> protocol.Evidence:
            diagnosis = await asyncio.to_thread(server.session.service(None).doctor)
            return protocol.Evidence(title="Warplens Doctor", markdown=markdown.diagnosis(diagnosis))

        return await answer_page(server, protocol.DOCTOR, page())
