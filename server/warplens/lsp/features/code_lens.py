# SPDX-License-Identifier: Apache-2.0
"""A lens over every kernel: what bounds it and what stands out, *Optimize*, and what would say more."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from warplens.lsp import protocol, words
from warplens.lsp.convert import builtins
from warplens.lsp.server import WarplensServer
from warplens_tools.decode import from_builtins
from warplens_tools.text import Span

#: The command is the client's own: it asks for consent before it sends the server's.
SETUP = "warplens.setupToolchain"


class _Data(msgspec.Struct, frozen=True):
    """What an unresolved lens carries."""

    uri: str
    kernel: str
    kind: Literal["evidence", "optimize", "setup"]


def register(server: WarplensServer) -> None:
    """Register with the server."""
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    async def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        file, view = session.file(uri), await server.analysis.view(uri)
        if file is None or view is None or not session.settings(file.document.path).code_lens:
            return []
        lenses: list[types.CodeLens] = []
        lacking = any("warplens setup toolchain" in u.remedy for u in view.unknown) and session.accepts(SETUP)
        for kernel in view.report.kernels:
            span = Span(kernel.name_line, kernel.column, kernel.name_line, kernel.column + len(kernel.name))
            where = session.positions.range(file.document.text, span)
            for data in (
                _Data(uri, kernel.qualified_name, "evidence"),
                _Data(uri, kernel.qualified_name, "optimize"),
            ):
                lenses.append(types.CodeLens(where, data=msgspec.to_builtins(data)))
            if lacking:
                setup = _Data(uri, kernel.qualified_name, "setup")
                lenses.append(types.CodeLens(where, data=msgspec.to_builtins(setup)))
        return lenses

    @server.feature(types.CODE_LENS_RESOLVE)
    async def resolve(lens: types.CodeLens) -> types.CodeLens:
        try:
            data = from_builtins(lens.data, _Data)
        except msgspec.ValidationError as error:
            raise JsonRpcInvalidParams(f"not a lens of this server: {error}") from error
        lens.command = await _command(server, data)
        return lens


async def _command(server: WarplensServer, data: _Data) -> types.Command:
    if data.kind == "optimize":
        optimize: Any = builtins(protocol.OptimizeArguments(uri=data.uri, kernel=data.kernel))
        return types.Command("Optimize", protocol.OPTIMIZE, arguments=[optimize])
    if data.kind == "setup":
        what: Any = builtins(protocol.SetupArguments(what="toolchain"))
        return types.Command("Set up toolchain", SETUP, arguments=[what])
    view = await server.analysis.view(data.uri)
    kernel = view.kernel(data.kernel) if view is not None else None
    title = words.headline(view, kernel) if view is not None and kernel is not None else data.kernel
    evidence: Any = builtins(protocol.EvidenceArguments(uri=data.uri, kernel=data.kernel))
    return types.Command(title, protocol.SHOW_EVIDENCE, arguments=[evidence])
