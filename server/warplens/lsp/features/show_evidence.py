# SPDX-License-Identifier: Apache-2.0
"""*Show evidence*: all that is known of a kernel, or of one finding, as a page."""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from warplens.lsp import markdown, protocol
from warplens.lsp.commands import answer_page, argument
from warplens.lsp.server import WarplensServer
from warplens.lsp.view import View
from warplens_tools.errors import InputError


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.SHOW_EVIDENCE)
    async def show_evidence(params: types.ExecuteCommandParams) -> Any:
        return await answer_page(server, protocol.SHOW_EVIDENCE, _page(server, params))


async def _page(server: WarplensServer, params: types.ExecuteCommandParams) -> protocol.Evidence:
    asked = argument(params, protocol.EvidenceArguments)
    view = await server.analysis.view(asked.uri)
    if view is None:
        raise InputError("nothing is known of this file yet", remedy="open it, and save it once")
    return _finding(view, asked) or _kernel(view, asked)


def _finding(view: View, asked: protocol.EvidenceArguments) -> protocol.Evidence | None:
    for finding in view.report.findings:
        if finding.code == asked.code and asked.line in (0, finding.line):
            title = f"{finding.code} in {finding.kernel}" if finding.kernel else finding.code
            return protocol.Evidence(title=title, markdown=markdown.finding_section(finding, uri=asked.uri))
    return None


def _kernel(view: View, asked: protocol.EvidenceArguments) -> protocol.Evidence:
    kernel = view.kernel(asked.kernel)
    if kernel is None:
        raise InputError(f"there is no kernel {asked.kernel!r} in this file")
    return protocol.Evidence(
        title=kernel.qualified_name, markdown=markdown.kernel_page(view, kernel, asked.uri)
    )
