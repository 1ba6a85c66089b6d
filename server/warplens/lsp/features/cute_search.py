# SPDX-License-Identifier: Apache-2.0
"""*Show CuTe for this*, on selections, findings and kernels; and for words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types

from warplens.lsp import cutlass, protocol, uris
from warplens.lsp.commands import answer_page, argument
from warplens.lsp.convert import builtins
from warplens.lsp.progress import Job
from warplens.lsp.server import WarplensServer
from warplens.service.report import KernelReport
from warplens_cutlass.corpus import NoCorpusError
from warplens_cutlass.engine import search
from warplens_cutlass.model import Answer, Result
from warplens_tools.errors import InputError
from warplens_tools.finding import Finding
from warplens_tools.text import SourceText, Span

_EXAMPLES = "Show CuTe for this"
_SNIPPET_LINES = 6


def register(server: WarplensServer) -> None:
    """Register with the server."""

    @server.command(protocol.SHOW_CUTE)
    async def show_cute(params: types.ExecuteCommandParams) -> Any:
        return await answer_page(server, protocol.SHOW_CUTE, _page(server, params))


def action(
    uri: str,
    text: SourceText,
    asked: Span,
    findings: Sequence[Finding],
    kernel: KernelReport | None,
) -> Iterator[types.CodeAction]:
    """One entry: for the selected code, else for what a finding asks, else for the kernel around the cursor."""
    query = next((f for f in findings if f.index_query), None)
    if (asked.line, asked.column) != (asked.end_line, asked.end_column) and text.slice(asked).strip():
        last = asked.end_line - (asked.end_column == 1 and asked.end_line > asked.line)
        yield _action(protocol.CuteArguments(uri=uri, line=asked.line, end_line=last))
    elif query is not None:
        lines = {"line": query.line, "end_line": query.end_line}
        yield _action(protocol.CuteArguments(uri=uri, query=query.index_query, **lines))
    elif kernel is not None:
        yield _action(protocol.CuteArguments(uri=uri, line=kernel.line, end_line=kernel.end_line))


def _action(arguments: protocol.CuteArguments) -> types.CodeAction:
    wire: Any = builtins(arguments)
    return types.CodeAction(
        _EXAMPLES,
        kind=types.CodeActionKind.RefactorRewrite,
        command=types.Command(_EXAMPLES, protocol.SHOW_CUTE, arguments=[wire]),
    )


async def _page(server: WarplensServer, params: types.ExecuteCommandParams) -> protocol.CutePage:
    asked = argument(params, protocol.CuteArguments)
    code = _code(server, asked)
    if not asked.query.strip() and not code.strip():
        raise InputError("nothing to look for", remedy="select code, or give words")
    try:
        answer = await _answer(server, asked.query, code, params.work_done_token)
    except NoCorpusError as error:
        if not await cutlass.offered(server, error):
            raise
        answer = await _answer(server, asked.query, code, None)
    title = f"CuTe: {asked.query}" if asked.query else "CuTe for this code"
    return protocol.CutePage(
        title=title, markdown=page(answer), results=tuple(_wire(answer, r) for r in answer.results)
    )


async def _answer(server: WarplensServer, query: str, code: str, token: types.ProgressToken | None) -> Answer:
    async with Job(server, "Warplens: searching CUTLASS", token=token) as task:
        return await asyncio.to_thread(search, query, like="" if query else code, task=task)


def _code(server: WarplensServer, asked: protocol.CuteArguments) -> str:
    file = server.session.file(asked.uri) if asked.uri else None
    if file is None or not asked.line:
        return ""
    text = file.document.text
    last = min(asked.end_line or asked.line, text.line_count)
    return "\n".join(text.line_text(n) for n in range(asked.line, last + 1))


def page(answer: Answer) -> str:
    """An answer as Markdown, every result a link to its line."""
    parts = [f"It {sentence}." for sentence in answer.recognised[:5]]
    for result in answer.results:
        target = f"{uris.from_path(_file(answer, result))}#L{result.line}"
        snippet = "\n".join(result.snippet.splitlines()[:_SNIPPET_LINES])
        parts.append(
            f"**[{result.symbol or result.path}]({target})** · {result.kind}  \n"
            f"{result.why}  \n`{result.path}:{result.line}`\n\n```cpp\n{snippet}\n```"
        )
    if not answer.results:
        parts.append("Nothing found.")
    versions = ", ".join(f"{c.name} {c.version}".strip() for c in answer.corpora)
    return "\n\n".join([*parts, f"*Searched: {versions}*"])


def _wire(answer: Answer, result: Result) -> protocol.CuteResult:
    return protocol.CuteResult(
        uri=uris.from_path(_file(answer, result)),
        line=result.line,
        end_line=result.end_line,
        symbol=result.symbol,
        kind=result.kind,
        why=result.why,
    )


def _file(answer: Answer, result: Result) -> Path:
    root = next((c.root for c in answer.corpora if c.name == result.corpus), answer.root)
    return Path(root) / result.path
