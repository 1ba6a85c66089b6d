# SPDX-License-Identifier: Apache-2.0
"""Which fixes are taken where several want the same place."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.cli.check import overlapping
from warplens.service.fixes import apply_fixes
from warplens.service.report import FileReport, Report
from warplens_tools.evidence import Observation
from warplens_tools.finding import Finding, Fix
from warplens_tools.text import SourceText, Span, TextEdit


def finding(line: int, *edits: TextEdit) -> Finding:
    seen = (Observation("source", "test", "places", 1.0),)
    fix = Fix("Hoist", "hoist", edits)
    return Finding("WL1", "a", "k", Span(line, 1, line, 2), "warning", "high", "A.", "B.", seen, fixes=(fix,))


def at(line: int, written: str) -> TextEdit:
    return TextEdit(Span(line, 1, line, 1), written)


@pytest.mark.parametrize(
    ("third", "waiting", "after"),
    [
        (at(1, "x\n"), 0, "x\none\ntwo\n"),
        (at(2, "x\n"), 0, "y\none\nx\ntwo\n"),
        (at(1, "z\n"), 1, "x\none\ntwo\n"),
    ],
)
def test_an_edit_at_the_place_of_another_waits_and_is_counted(
    tmp_path: Path, third: TextEdit, waiting: int, after: str
) -> None:
    path = tmp_path / "k.cu"
    path.write_text("one\ntwo\n")
    first = at(1, "x\n" if third.span.line == 1 else "y\n")
    report = FileReport(
        str(path), (), (finding(1, first), finding(2, third)), digest=SourceText.read(path).digest
    )
    fixed = apply_fixes(Report(1, "", (report,), ()), "sure", write=True)
    assert (path.read_text(), fixed.waiting) == (after, waiting)


def test_what_waits_is_said() -> None:
    assert overlapping(1).startswith("1 edit more overlaps one")
    assert overlapping(2).startswith("2 edits more overlap one")
