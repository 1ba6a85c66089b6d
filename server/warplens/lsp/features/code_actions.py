# SPDX-License-Identifier: Apache-2.0
"""Quick fixes, *Fix and prove*, *Optimize this kernel*, the comment that silences a finding, a launch spec."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lsprotocol import types

from warplens.lsp import protocol
from warplens.lsp.convert import builtins, diagnostic, enum_value, fix_title, workspace_edit
from warplens.lsp.features import cute_search, launch_spec
from warplens.lsp.features.ignore import comment
from warplens.lsp.server import WarplensServer
from warplens.lsp.session import OpenFile
from warplens_tools.finding import Finding
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
        text = file.document.text
        asked = session.positions.span(text, params.range)
        # a selection of whole lines ends at the start of the next
        last = asked.end_line - (asked.end_column == 1 and asked.end_line > asked.line)
        everything = view.report.findings if view is not None else ()
        findings = [f for f in everything if f.line <= last and asked.line <= f.end_line]
        actions = [action for f in findings for action in _for_finding(server, file, f)]
        actions += [_why(server, file, finding) for finding in findings]
        actions += _fix_all(server, file, findings, everything)
        lines = range(asked.line, last + 1)
        kernels = [view.kernel_at(line) for line in lines] if view is not None else []
        for kernel in dict.fromkeys(k for k in kernels if k is not None):
            actions.append(_optimize(uri, kernel.qualified_name))
        actions += cute_search.action(uri, text, asked, findings, next(filter(None, kernels), None))
        heads = view.report.kernels if view is not None else ()
        if any(k.line <= last and asked.line <= k.name_line for k in heads):
            actions += launch_spec.action(server, file, asked.line, last)
        actions += (_ignore(server, file, finding) for finding in findings if not _in_macro(text, finding))
        preferred = next((a for a in actions if a.edit is not None), None)
        if preferred is not None and findings and findings[0].fixes:
            preferred.is_preferred = True
        return [action for action in actions if _wanted(action, params.context.only)]


def _for_finding(server: WarplensServer, file: OpenFile, finding: Finding) -> Iterator[types.CodeAction]:
    document = file.document
    shown = [_shown(server, file, finding)]
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
        yield types.CodeAction(
            title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=shown,
            edit=_edit(server, file, fix.edits),
            command=types.Command(title, protocol.FIX_APPLIED, arguments=[arguments]),
        )
        title = f"Fix and prove: {fix.title}"
        yield types.CodeAction(
            title,
            kind=types.CodeActionKind.QuickFix,
            diagnostics=shown,
            command=types.Command(title, protocol.FIX_AND_PROVE, arguments=[arguments]),
        )


def _fix_all(
    server: WarplensServer,
    file: OpenFile,
    findings: Sequence[Finding],
    everything: Sequence[Finding],
) -> Iterator[types.CodeAction]:
    """The first fix of every finding of a code, where there are several; on request alone, as none is proven."""
    for code in dict.fromkeys(f.code for f in findings if f.fixes):
        same = [f for f in everything if f.code == code and f.fixes]
        edits: list[TextEdit] = []
        for finding in same:
            new = [edit for edit in finding.fixes[0].edits if edit not in edits]
            if not any(_meet(edit.span, other.span) for edit in new for other in edits):
                edits += new
        if len(same) > 1 and edits:
            yield types.CodeAction(
                f"Fix all {code} in this file ({same[0].fixes[0].status})",
                kind=types.CodeActionKind.QuickFix,
                edit=_edit(server, file, edits),
            )


def _meet(one: Span, other: Span) -> bool:
    first, second = sorted(((s.line, s.column), (s.end_line, s.end_column)) for s in (one, other))
    return second[0] < first[1] or second == first


def _edit(server: WarplensServer, file: OpenFile, edits: Sequence[TextEdit]) -> types.WorkspaceEdit:
    document = file.document
    return workspace_edit(
        document.uri,
        document.version,
        server.session.positions.edits(document.text, edits),
        versioned=server.versioned_edits,
    )


def _shown(server: WarplensServer, file: OpenFile, finding: Finding) -> types.Diagnostic:
    return diagnostic(finding, file.document.uri, file.document.text, server.session.positions)


def _why(server: WarplensServer, file: OpenFile, finding: Finding) -> types.CodeAction:
    title = f"Show the evidence of {finding.code}"
    arguments: Any = builtins(
        protocol.EvidenceArguments(
            uri=file.document.uri, kernel=finding.kernel, code=finding.code, line=finding.line
        )
    )
    return types.CodeAction(
        title,
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[_shown(server, file, finding)],
        command=types.Command(title, protocol.SHOW_EVIDENCE, arguments=[arguments]),
    )


def _in_macro(text: SourceText, finding: Finding) -> bool:
    return comment(text, finding.line, finding.code, "reason") is None


def _ignore(server: WarplensServer, file: OpenFile, finding: Finding) -> types.CodeAction:
    """A client that asks for the reason sends it back; for any other the comment says where it goes."""
    title = f"Ignore {finding.code} here, with a reason"
    # without its diagnostic: editors put what names one before what does not, and this comes last
    action = types.CodeAction(title, kind=types.CodeActionKind.QuickFix)
    if server.session.accepts(protocol.IGNORE):
        arguments: Any = builtins(
            protocol.IgnoreArguments(uri=file.document.uri, code=finding.code, line=finding.line, reason="")
        )
        action.command = types.Command(title, "warplens.ignoreWithReason", arguments=[arguments])
        return action
    edit = comment(file.document.text, finding.line, finding.code, "reason")
    action.edit = _edit(server, file, [edit] if edit is not None else [])
    return action


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
