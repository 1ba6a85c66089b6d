# SPDX-License-Identifier: Apache-2.0
"""*Optimize this kernel*: a search whose result is an edit with its proof."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from warplens.lsp import protocol
from warplens.lsp.commands import answer, argument
from warplens.lsp.judging import Search
from warplens.lsp.models import editor_models, with_consent
from warplens.lsp.server import WarplensServer
from warplens_tools.errors import MissingToolError

#: The command is the client's own, which shows the page.
_DOCTOR = protocol.NoticeAction(title="What is missing here", command="warplens.runDoctor")


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.OPTIMIZE)
    async def optimize(params: types.ExecuteCommandParams) -> Any:
        return await answer(server, _optimize(server, params))


async def _optimize(server: WarplensServer, params: types.ExecuteCommandParams) -> protocol.Proposal | None:
    asked = argument(params, protocol.OptimizeArguments)
    await server.analysis.view(asked.uri)  # the kernels and their lines are known after the first analysis
    basis = server.proposals.basis(asked.uri, asked.kernel)
    judging, path = server.judging(basis.path), basis.path
    search = Search(asked.kernel, asked.budget, asked.seconds, editor_models(server))
    title = f"Warplens: optimizing {asked.kernel or path.name}"
    try:
        offer = await with_consent(
            server,
            lambda: server.jobs.run(
                title, params.work_done_token, lambda task: judging.optimize(path, search, task=task)
            ),
        )
    except MissingToolError as error:
        remedy = f" To have it measured: {error.remedy}." if error.remedy else ""
        server.notice(f"{asked.kernel or path.name}: {str(error).rstrip('.')}.{remedy}", _DOCTOR)
        return None
    if not offer.edits:
        server.notice(offer.title, *((_DOCTOR,) if offer.state == "unproven" else ()))
        return None
    return server.proposals.offer(basis, offer)
