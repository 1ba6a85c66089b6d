# SPDX-License-Identifier: Apache-2.0
"""Quick fixes, *Fix and prove*, *Optimize this kernel*, and the comment that silences a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lsprotocol import types

from warplens.lsp import protocol
from warplens.lsp.convert import SOURCE, builtins, diagnostic, enum_value, fix_title, workspace_edit
from warplens.lsp.features import cute_search
from warplens.lsp.server import WarplensServer
from warplens.lsp.session import OpenFile
from warplens.service.report import FindingReport
from warplens_tools.text import SourceText, Span, TextEdit

_KINDS = [types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite]


def register(server: WarplensServer) -> None:
    """Register with the server."""
    session = server.session

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=_KINDS))
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        file, view = session.file(uri), await server.analysis.view(uri)
        if file is None:
            return []
        asked = session.positions.span(file.document.text, params.range)
        actions: list[types.CodeAction] = []
        for finding in view.report.findings if view is not None else ():
            if finding.line <= asked.end_line and asked.line <= finding.end_line:
                actions += _for_finding(server, file, finding)
        kernel = view.kernel_at(asked.line) if view is not None else None
        if kernel is not None:
            actions.append(_optimize(uri, kernel.qualified_name))
        actions += cute_search.actions(uri, file.document.text, asked, kernel)
        return [action for action in actions if _wanted(action, params.context.only)]


def _for_finding(
    server: WarplensServer, file: OpenFile, finding: FindingReport
) -> Iterator[types.CodeAction]:
    session, document = server.session, file.document
    shown = diagnostic(finding, document.uri, document.text, session.positions)

    def edit(title: str, edits: tuple[TextEdit, ...], after: types.Command | None = None) -> types.CodeAction:
        return types.CodeAction(
            title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[shown],
            edit=workspace_edit(
                document.uri,
                document.version,
                session.positions.edits(document.text, edits),
                versioned=server.versioned_edits,
            ),
            command=after,
        )

    for fix in finding.fixes:
        arguments: Any = builtins(
            protocol.FixAndProveArguments(
                uri=document.uri,
                code=finding.code,
                kernel=finding.kernel,
                line=finding.line,
                rewrite=fix.rewrite,
            )
        )
        title = fix_title(fix)
        yield edit(title, fix.edits, types.Command(title, protocol.FIX_APPLIED, arguments=[arguments]))
        yield types.CodeAction(
            f"Fix and prove: {fix.title}",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[shown],
            command=types.Command(
                f"Fix and prove: {fix.title}", protocol.FIX_AND_PROVE, arguments=[arguments]
            ),
        )
    if finding.index_query:
        yield cute_search.finding_action(document.uri, finding, shown)
    comment = suppression(document.text, finding)
    if comment is not None:
        yield edit(f"Ignore {finding.code} here, with a reason", (comment,))


def suppression(text: SourceText, finding: FindingReport) -> TextEdit | None:
    """A comment above the finding's line; None inside a continued macro, where it would end the macro."""
    above = text.line_text(finding.line - 1)
    if above.rstrip().endswith("\\"):
        return None
    line = text.line_text(finding.line)
    indent = line[: len(line) - len(line.lstrip())]
    comment = f"{indent}// {SOURCE}: ignore {finding.code}: reason{text.newline}"
    return TextEdit(Span(finding.line, 1, finding.line, 1), comment)


def _optimize(uri: str, kernel: str) -> types.CodeAction:
    arguments: Any = builtins(protocol.OptimizeArguments(uri=uri, kernel=kernel))
    title = "Optimize this kernel"
    return types.CodeAction(
        title,
        kind=types.CodeActionKind.RefactorRewrite,
        command=types.Command(title, protocol.OPTIMIZE, arguments=[arguments]),
    )


def _wanted(action: types.CodeAction, only: Sequence[types.CodeActionKind | str] | None) -> bool:
    """Whether the client asked for this kind, or a kind above it."""
    kind = enum_value(action.kind)
    return not only or any(f"{kind}.".startswith(f"{enum_value(k)}.") or not enum_value(k) for k in only)
