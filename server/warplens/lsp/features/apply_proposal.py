# SPDX-License-Identifier: Apache-2.0
"""Applies an offered edit through `workspace/applyEdit`."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from warplens.lsp import protocol
from warplens.lsp.commands import answer, argument
from warplens.lsp.server import WarplensServer


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.APPLY_PROPOSAL)
    async def apply_proposal(params: types.ExecuteCommandParams) -> Any:
        async def apply() -> protocol.ApplyResult:
            return await server.proposals.apply(argument(params, protocol.ApplyProposalArguments).id)

        return await answer(server, apply())
