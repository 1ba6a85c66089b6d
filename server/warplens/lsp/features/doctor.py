# SPDX-License-Identifier: Apache-2.0
"""*Doctor*: what this machine has, what is missing, and how to get it, as a page."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from lsprotocol import types

from warplens.lsp import markdown, protocol
from warplens.lsp.commands import answer_page
from warplens.lsp.features.code_lens import SETUP
from warplens.lsp.server import WarplensServer
from warplens_cutlass.corpus import corpora
from warplens_tools.collect.doctor import Check

#: Commands of the client, by their titles: they ask for consent before they bring anything.
_TOOLCHAIN = "[Set up toolchain](command:warplens.setupToolchain)"
_CUTLASS = "[Fetch CUTLASS](command:warplens.fetchCutlass)"


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.DOCTOR)
    async def doctor(params: types.ExecuteCommandParams) -> Any:  # noqa: ARG001 - takes no argument
        async def page() -> protocol.Evidence:
            checks = await asyncio.to_thread(server.session.service(None).doctor)
            shown = markdown.diagnosis(checks, _buttons(server, checks))
            return protocol.Evidence(title="Warplens Doctor", markdown=shown)

        return await answer_page(server, protocol.DOCTOR, page())


def _buttons(server: WarplensServer, checks: Iterable[Check]) -> Iterator[str]:
    """What would bring what is lacking, for a client that has the commands."""
    if not server.session.accepts(SETUP):
        return
    if any("warplens setup toolchain" in check.remedy for check in checks):
        yield _TOOLCHAIN
    if not corpora():
        yield _CUTLASS
