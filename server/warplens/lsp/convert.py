# SPDX-License-Identifier: Apache-2.0
"""Between LSP types and plain data. Positions: 0-based units of the negotiated encoding there,
1-based code points here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from lsprotocol import types

from warplens.lsp import protocol
from warplens.lsp.documents import ContentChange
from warplens.settings import Problem
from warplens_tools.finding import Finding, Fix, Severity
from warplens_tools.text import SourceText, Span, TextEdit

SOURCE = "warplens"

_SEVERITIES: dict[Severity, types.DiagnosticSeverity] = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}


class Positions:
    """Converts positions of one negotiated encoding: "utf-8", "utf-16" or "utf-32"."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding

    def column(self, line: str, units: int) -> int:
        """1-based code-point column of a 0-based unit in `line`, clamped; half a character rounds down."""
        if self.encoding == "utf-32" or line.isascii():
            return min(units, len(line)) + 1
        used = 0
        for index, character in enumerate(line):
            used += self._width(character)
            if used > units:
                return index + 1
        return len(line) + 1

    def units(self, line: str, column: int) -> int:
        """0-based unit of a 1-based code-point column in `line`, clamped."""
        before = line[: max(column, 1) - 1]
        if self.encoding == "utf-32" or before.isascii():
            return len(before)
        return sum(map(self._width, before))

    def _width(self, character: str) -> int:
        code = ord(character)
        if self.encoding == "utf-16":
            return 2 if code > 0xFFFF else 1
        return 1 + (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF)

    def position(self, text: SourceText, line: int, column: int) -> types.Position:
        """The LSP position of a line and column, clamped into the text."""
        line = min(max(line, 1), text.line_count)
        return types.Position(line - 1, self.units(text.line_text(line), column))

    def range(self, text: SourceText, span: Span) -> types.Range:
        """The LSP range of a span."""
        return types.Range(
            self.position(text, span.line, span.column), self.position(text, span.end_line, span.end_column)
        )

    def point(self, text: SourceText, position: types.Position) -> tuple[int, int]:
        """Line and column of an LSP position."""
        line = position.line + 1
        return line, self.column(text.line_text(line), position.character)

    def span(self, text: SourceText, range_: types.Range) -> Span:
        """The span of an LSP range."""
        return Span(*self.point(text, range_.start), *self.point(text, range_.end))

    def change(self, text: SourceText, change: types.TextDocumentContentChangeEvent) -> ContentChange:
        """One edit of `textDocument/didChange`, given against `text`."""
        if isinstance(change, types.TextDocumentContentChangePartial):
            return ContentChange(self.span(text, change.range), change.text)
        return ContentChange(None, change.text)

    def edits(self, text: SourceText, edits: Sequence[TextEdit]) -> list[types.TextEdit]:
        """Edits of `text`."""
        return [types.TextEdit(self.range(text, edit.span), edit.new_text) for edit in edits]


def finding_span(finding: Finding) -> Span:
    """The span a finding stands on."""
    return finding.span


class FindingData(msgspec.Struct, frozen=True):
    """What a diagnostic's `data` holds, so that a code action finds its finding again."""

    code: str
    kernel: str
    line: int
    column: int


def diagnostic(
    finding: Finding, uri: str, text: SourceText, positions: Positions, mark: str = ""
) -> types.Diagnostic:
    """A finding as a diagnostic of `uri`, whose text is `text`; `mark` goes after its sentence."""
    related = [
        types.DiagnosticRelatedInformation(
            types.Location(uri, positions.range(text, r.span)),
            r.message,
        )
        for r in finding.related
    ]
    return types.Diagnostic(
        range=positions.range(text, finding_span(finding)),
        message=_named(finding) + mark,
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        code_description=types.CodeDescription(finding.page) if finding.page else None,
        source=SOURCE,
        related_information=related or None,
        data=msgspec.to_builtins(FindingData(finding.code, finding.kernel, finding.line, finding.column)),
    )


def _named(finding: Finding) -> str:
    """A finding's sentence with its kernel, which many name by themselves."""
    plain = finding.kernel.rsplit("::", 1)[-1]
    if not plain or re.search(rf"\b{re.escape(plain)}\b", finding.message):
        return finding.message
    return f"{finding.kernel}: {finding.message}"


def notice(message: str) -> types.Diagnostic:
    """Something to say about a whole file, on its first line."""
    start = types.Position(0, 0)
    severity = types.DiagnosticSeverity.Information
    return types.Diagnostic(types.Range(start, start), message, severity=severity, source=SOURCE)


def problem_diagnostic(problem: Problem) -> types.Diagnostic:
    """What is wrong in a settings file, on its line."""
    line = types.Range(types.Position(problem.line - 1, 0), types.Position(problem.line, 0))
    message = problem.message.removeprefix(f"{problem.file}: ")
    text = f"{message[:1].upper()}{message[1:]}. The default counts instead."
    return types.Diagnostic(line, text, severity=types.DiagnosticSeverity.Error, source=SOURCE)


def workspace_edit(
    uri: str, version: int | None, edits: Sequence[types.TextEdit], *, versioned: bool
) -> types.WorkspaceEdit:
    """Edits of one document, tied to its version where the client can check it."""
    if not versioned:
        return types.WorkspaceEdit(changes={uri: list(edits)})
    document = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, list(edits))])


def wire_edit(edit: types.TextEdit) -> protocol.WireEdit:
    """An edit as Warplens' own messages carry it."""
    start, end = edit.range.start, edit.range.end
    return protocol.WireEdit(
        range=protocol.WireRange(
            start=protocol.WirePosition(line=start.line, character=start.character),
            end=protocol.WirePosition(line=end.line, character=end.character),
        ),
        new_text=edit.new_text,
    )


def fix_title(fix: Fix) -> str:
    """A fix's title with its status, and how results may change."""
    caveat = f"; {fix.caveat}" if fix.caveat else ""
    return f"{fix.title} ({fix.status}{caveat})"


def builtins(message: msgspec.Struct) -> Any:
    """A message of `protocol` as JSON values."""
    return msgspec.to_builtins(message)


def enum_value(value: Any) -> str:
    """The string of a protocol constant: the library gives an enumeration, or what the client sent."""
    return str(getattr(value, "value", value))
