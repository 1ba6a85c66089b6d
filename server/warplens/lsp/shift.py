"""Moves results through edits: from the text they were computed for to the text on screen.

A result that stands on lines nobody touched moves with them; one whose own lines changed is dropped.
Lines that are kept are kept verbatim, so columns never change.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import msgspec

from warplens.service.report import FileReport, FindingReport, KernelReport, RelatedReport
from warplens_tools.finding import Fix
from warplens_tools.text import SourceText, Span, TextEdit


class LineChange(msgspec.Struct, frozen=True):
    """Lines `start` to `start + removed - 1` (1-based) became `added` other lines."""

    start: int
    removed: int
    added: int


def line_change(old: SourceText, new: SourceText, first: int, last: int) -> LineChange | None:
    """What an edit within lines `first` to `last` of `old` changed; None if no line differs.

    Equal lines at both ends of the window are not part of the change: a line that was only pushed down
    by a new one above it is unchanged. The window is widened by one line each way, because an edit
    between "\\r" and "\\n" joins or parts the lines around it.
    """
    first, last = max(first - 1, 1), min(last + 1, old.line_count)
    end = last + new.line_count - old.line_count
    while first <= last and first <= end and old.line_text(first) == new.line_text(first):
        first += 1
    while first <= last and first <= end and old.line_text(last) == new.line_text(end):
        last, end = last - 1, end - 1
    removed, added = last - first + 1, end - first + 1
    return LineChange(first, removed, added) if removed or added else None


def differences(old: SourceText, new: SourceText) -> list[LineChange]:
    """The changes from one text to another where no edits are known, e.g. from the file to the editor."""
    if old.text == new.text:
        return []
    whole = line_change(old, new, 1, old.line_count)
    if whole is None:
        return []
    before = [old.line_text(i) for i in range(whole.start, whole.start + whole.removed)]
    after = [new.line_text(i) for i in range(whole.start, whole.start + whole.added)]
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=len(before) > 2000).get_opcodes()
    # Each change is stated against the text that the ones before it left, as edits are: hence j1.
    return [
        LineChange(whole.start + j1, i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in blocks if tag != "equal"
    ]


def shift_lines(first: int, last: int, changes: Iterable[LineChange]) -> tuple[int, int] | None:
    """Where lines `first` to `last` went; None if any of them changed or a line came between them."""
    for change in changes:
        if change.start > last:
            continue
        if change.start + change.removed > first or change.start > first:
            return None
        first += change.added - change.removed
        last += change.added - change.removed
    return first, last


def shift_report(report: FileReport, changes: Sequence[LineChange]) -> FileReport:
    """The report as far as it holds after `changes`."""
    if not changes:
        return report
    return msgspec.structs.replace(
        report,
        kernels=tuple(k for k in (_kernel(k, changes) for k in report.kernels) if k is not None),
        findings=tuple(f for f in (_finding(f, changes) for f in report.findings) if f is not None),
    )


def _kernel(kernel: KernelReport, changes: Sequence[LineChange]) -> KernelReport | None:
    """A kernel goes with the line of its name, whatever happens in its body."""
    name = shift_lines(kernel.name_line, kernel.name_line, changes)
    if name is None:
        return None
    start, end = kernel.line, kernel.end_line
    for change in changes:
        delta = change.added - change.removed
        if change.start <= end:
            end = max(end + delta, change.start)
        if change.start + change.removed <= start:
            start += delta
    launches = (shift_lines(line, line, changes) for line in kernel.launch_lines)
    return msgspec.structs.replace(
        kernel,
        line=min(start, name[0]),
        end_line=max(end, name[0]),
        name_line=name[0],
        launch_lines=tuple(lines[0] for lines in launches if lines is not None),
    )


def _finding(finding: FindingReport, changes: Sequence[LineChange]) -> FindingReport | None:
    lines = shift_lines(finding.line, finding.end_line, changes)
    if lines is None:
        return None
    return msgspec.structs.replace(
        finding,
        line=lines[0],
        end_line=lines[1],
        fixes=tuple(f for f in (_fix(f, changes) for f in finding.fixes) if f is not None),
        related=tuple(r for r in (_related(r, changes) for r in finding.related) if r is not None),
    )


def _related(related: RelatedReport, changes: Sequence[LineChange]) -> RelatedReport | None:
    lines = shift_lines(related.line, related.end_line, changes)
    if lines is None:
        return None
    return msgspec.structs.replace(related, line=lines[0], end_line=lines[1])


def _fix(fix: Fix, changes: Sequence[LineChange]) -> Fix | None:
    edits = shift_edits(fix.edits, changes)
    return None if edits is None else msgspec.structs.replace(fix, edits=edits)


def shift_edits(edits: Sequence[TextEdit], changes: Sequence[LineChange]) -> tuple[TextEdit, ...] | None:
    """Where edits go after `changes`; None unless all of their places are as they were."""
    moved: list[TextEdit] = []
    for edit in edits:
        lines = shift_lines(edit.span.line, edit.span.end_line, changes)
        if lines is None:
            return None
        span = Span(lines[0], edit.span.column, lines[1], edit.span.end_column)
        moved.append(TextEdit(span, edit.new_text))
    return tuple(moved)
