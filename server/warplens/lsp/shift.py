# SPDX-License-Identifier: Apache-2.0
"""Moves results through edits: from the text they were computed for to the text on screen.

A result on lines nobody touched moves with them; one whose own lines changed stays, is named as touched, and goes
only when its text is deleted. An edit, whose places must be to the letter, is dropped when they were touched.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Sequence

import msgspec

from warplens.service.report import FileReport, KernelReport
from warplens_tools.finding import Finding, Fix, RelatedSpan
from warplens_tools.memo import spans_of
from warplens_tools.text import SourceText, Span, TextEdit


class LineChange(msgspec.Struct, frozen=True):
    """Lines `start` to `start + removed - 1` (1-based) became `added` other lines."""

    start: int
    removed: int
    added: int
    #: Where one line became another: the 1-based column from which on it differs, and by how much it grew.
    column: int = 0
    grown: int = 0


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
    if removed == added == 1:
        before, after = old.line_text(first), new.line_text(first)
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
        return LineChange(first, 1, 1, sum(1 for _ in same) + 1, len(after) - len(before))
    return LineChange(first, removed, added) if removed or added else None


def differences(old: SourceText, new: SourceText) -> list[LineChange]:
    """The changes from one text to another where no edits are known, e.g. from the file to the editor."""
    if old.text == new.text:
        return []
    return line_changes(old, new, 1, old.line_count)


def line_changes(old: SourceText, new: SourceText, first: int, last: int) -> list[LineChange]:
    """What an edit within lines `first` to `last` of `old` changed, with the lines it left inside left out.

    A formatter, or a file that changed on disk, comes as one edit of everything.
    """
    whole = line_change(old, new, first, last)
    if whole is None:
        return []
    if min(whole.removed, whole.added) < 2:
        return [whole]
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


def carry_lines(first: int, last: int, changes: Iterable[LineChange]) -> tuple[int, int, bool] | None:
    """Where lines `first` to `last` are now and whether they were touched; None if all of them were deleted."""
    touched = False
    for change in changes:
        end, delta = change.start + change.removed, change.added - change.removed
        if change.start > last:
            continue
        if end <= first and change.start <= first:
            first, last = first + delta, last + delta
            continue
        if not change.added and change.start <= first and end > last:
            return None
        touched = True
        first = min(first, change.start + max(min(first - change.start, change.added - 1), 0))
        last = last + delta if last >= end else change.start + min(last - change.start, change.added - 1)
        last = max(first, last)
    return first, last, touched


def _is_clear(places: Iterable[tuple[int, int]], changes: Sequence[LineChange]) -> bool:
    """Whether all lines of these places (first and last) are as and where they were: most of a file, of most edits."""
    for change in changes:
        # what changes the number of lines also moves all that is below it
        end = change.start + change.removed if change.removed == change.added else 0
        if not all(last < change.start or 0 < end <= first for first, last in places):
            return False
    return True


def carry_kernel(kernel: KernelReport, changes: Sequence[LineChange]) -> tuple[KernelReport, bool] | None:
    """A kernel where it is now, and whether its text was touched; None if its name was deleted."""
    places = [(kernel.line, kernel.end_line), (kernel.name_line, kernel.name_line)]
    if _is_clear([*places, *((line, line) for line in kernel.launch_lines)], changes):
        return kernel, False
    name = carry_lines(kernel.name_line, kernel.name_line, changes)
    whole = carry_lines(kernel.line, kernel.end_line, changes)
    if name is None or whole is None:
        return None
    launches = (shift_lines(line, line, changes) for line in kernel.launch_lines)
    carried = msgspec.structs.replace(
        kernel,
        line=min(whole[0], name[0]),
        end_line=max(whole[1], name[0]),
        name_line=name[0],
        launch_lines=tuple(lines[0] for lines in launches if lines is not None),
    )
    return carried, whole[2]


def carry_finding(finding: Finding, changes: Sequence[LineChange]) -> tuple[Finding, bool] | None:
    """A finding where it is now, and whether its lines were touched; None if they were deleted."""
    if _is_clear([(span.line, span.end_line) for span in spans_of(finding)], changes):
        return finding, False
    lines = carry_lines(finding.line, finding.end_line, changes)
    if lines is None:
        return None
    carried = msgspec.structs.replace(
        finding,
        span=_carry_span(finding.span, changes),
        fixes=tuple(f for f in (_fix(f, changes) for f in finding.fixes) if f is not None),
        related=tuple(r for r in (_related(r, changes) for r in finding.related) if r is not None),
    )
    return carried, lines[2]


def carry_report(report: FileReport, changes: Sequence[LineChange]) -> FileReport:
    """The report with everything where it is now, touched or not."""
    if not changes:
        return report
    kernels = (carry_kernel(kernel, changes) for kernel in report.kernels)
    findings = (carry_finding(finding, changes) for finding in report.findings)
    return msgspec.structs.replace(
        report,
        kernels=tuple(k[0] for k in kernels if k is not None),
        findings=tuple(f[0] for f in findings if f is not None),
    )


def _related(related: RelatedSpan, changes: Sequence[LineChange]) -> RelatedSpan | None:
    lines = shift_lines(related.span.line, related.span.end_line, changes)
    if lines is None:
        return None
    return msgspec.structs.replace(related, span=_on_lines(related.span, *lines))


def _carry_span(span: Span, changes: Iterable[LineChange]) -> Span:
    """A span on lines of which some are still there: what stood behind an edit within its line moves with it."""
    for change in changes:
        lines = carry_lines(span.line, span.end_line, (change,))
        if lines is None:
            return span
        column, end = span.column, span.end_column
        if change.column and change.start == span.line and change.column <= column:
            column = max(column + change.grown, change.column)
        if change.column and change.start == span.end_line and change.column < end:
            end = max(end + change.grown, change.column)
        if lines[0] == lines[1]:
            end = max(end, column)
        span = Span(lines[0], column, lines[1], end)
    return span


def _on_lines(span: Span, first: int, last: int) -> Span:
    return Span(first, span.column, last, span.end_column)


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
        moved.append(TextEdit(_on_lines(edit.span, *lines), edit.new_text))
    return tuple(moved)
