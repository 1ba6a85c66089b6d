# SPDX-License-Identifier: Apache-2.0
"""*Fix and prove*: judges one quick fix before it is applied."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from warplens.lsp import protocol
from warplens.lsp.commands import answer, argument
from warplens.lsp.proposals import unproven
from warplens.lsp.server import WarplensServer
from warplens.lsp.view import View
from warplens_tools.errors import InputError, MissingToolError
from warplens_tools.finding import Fix


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.FIX_AND_PROVE)
    async def fix_and_prove(params: types.ExecuteCommandParams) -> Any:
        return await answer(server, _fix_and_prove(server, params))


async def _fix_and_prove(server: WarplensServer, params: types.ExecuteCommandParams) -> protocol.Proposal:
    asked = argument(params, protocol.FixAndProveArguments)
    fix = _fix(await server.analysis.view(asked.uri), asked)
    basis = server.proposals.basis(asked.uri, asked.kernel)
    judging, path = server.judging(basis.path), basis.path
    try:
        offer = await server.jobs.run(
            f"Warplens: proving “{fix.title}”",
            params.work_done_token,
            lambda task: judging.prove(path, asked.kernel, fix, task=task),
        )
    except MissingToolError as error:
        offer = unproven(asked.kernel, fix, error)
    return server.proposals.offer(basis, offer)


def _fix(view: View | None, asked: protocol.FixAndProveArguments) -> Fix:
    for finding in view.report.findings if view is not None else ():
        if (finding.code, finding.kernel, finding.line) == (asked.code, asked.kernel, asked.line):
            for fix in finding.fixes:
                if fix.rewrite == asked.rewrite:
                    return fix
    raise InputError(f"{asked.code} has no such fix on line {asked.line} any more")
