"""*Optimize this kernel*: a search whose result is an edit with its proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from warplens.lsp import protocol
from warplens.lsp.commands import answer, argument
from warplens.lsp.judging import Search
from warplens.lsp.proposals import Basis, Offer, unproven
from warplens.lsp.view import View
from warplens_tools.errors import MissingToolError

if TYPE_CHECKING:
    from warplens.lsp.server import WarplensServer


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.OPTIMIZE)
    async def optimize(params: types.ExecuteCommandParams) -> Any:
        return await answer(server, _optimize(server, params))


async def _optimize(server: WarplensServer, params: types.ExecuteCommandParams) -> protocol.Proposal | None:
    asked = argument(params, protocol.OptimizeArguments)
    view = await server.analysis.view(asked.uri)
    basis = server.proposals.basis(asked.uri, asked.kernel)
    judging, path = server.judging(basis.path), basis.path
    search = Search(asked.kernel, asked.budget, asked.seconds)
    title = f"Warplens: optimizing {asked.kernel or path.name}"
    try:
        offer = await server.jobs.run(
            title,
            params.work_done_token,
            lambda progress, cancel: judging.optimize(path, search, progress=progress, cancel=cancel),
        )
    except MissingToolError as error:
        unproven = _best_fix(view, basis, error)
        if unproven is None:
            raise
        offer = unproven
    if not offer.edits:
        server.window_show_message(types.ShowMessageParams(types.MessageType.Info, offer.title))
        return None
    return server.proposals.offer(basis, offer)


def _best_fix(view: View | None, basis: Basis, error: MissingToolError) -> Offer | None:
    """Where nothing can be measured: the first fix of the kernel's best finding, and why it is unproven."""
    first, last = basis.lines
    for finding in view.report.findings if view is not None else ():
        if finding.fixes and first <= finding.line <= last:
            return unproven(finding.kernel, finding.fixes[0], error)
    return None
