# SPDX-License-Identifier: Apache-2.0
"""*Ignore*, with a reason the user typed: the comment that silences a finding."""

from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from warplens.lsp import protocol
from warplens.lsp.commands import answer, argument
from warplens.lsp.convert import SOURCE, workspace_edit
from warplens.lsp.server import WarplensServer
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText, Span, TextEdit


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.IGNORE)
    async def ignore(params: types.ExecuteCommandParams) -> Any:
        return await answer(server, _ignore(server, params))


def comment(text: SourceText, line: int, code: str, reason: str) -> TextEdit | None:
    """A comment above a line; None inside a continued macro, where it would end the macro."""
    above = text.line_text(line - 1)
    if above.rstrip().endswith("\\"):
        return None
    written = text.line_text(line)
    indent = written[: len(written) - len(written.lstrip())]
    why = " ".join(reason.replace("*/", "").split())
    said = f"{indent}// {SOURCE}: ignore {code}: {why}{text.newline}"
    return TextEdit(Span(line, 1, line, 1), said)


async def _ignore(server: WarplensServer, params: types.ExecuteCommandParams) -> protocol.ApplyResult:
    asked = argument(params, protocol.IgnoreArguments)
    file = server.session.file(asked.uri)
    if file is None:
        raise InputError("the file is not open in the editor")
    document = file.document
    if not asked.reason.strip():
        raise InputError(
            "an ignored finding needs a reason", remedy="say in a few words why it does not matter"
        )
    edit = None
    if 1 <= asked.line <= document.text.line_count:
        edit = comment(document.text, asked.line, asked.code, asked.reason)
    if edit is None:
        raise InputError(
            "a comment cannot stand there", remedy=f"add {asked.code} to `ignore` in warplens.toml"
        )
    edits = server.session.positions.edits(document.text, [edit])
    change = workspace_edit(document.uri, document.version, edits, versioned=server.versioned_edits)
    try:
        done = await server.workspace_apply_edit_async(
            types.ApplyWorkspaceEditParams(change, label=f"Ignore {asked.code}")
        )
    except JsonRpcException as error:
        return protocol.ApplyResult(applied=False, reason=f"the editor answered: {error}")
    return protocol.ApplyResult(applied=done.applied, reason=done.failure_reason or "")
