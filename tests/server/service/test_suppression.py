# SPDX-License-Identifier: Apache-2.0
"""Comments that silence findings."""

from __future__ import annotations

import pytest

from warplens.service.suppression import suppressions, wanted
from warplens_tools.finding import Finding
from warplens_tools.text import SourceText, Span


def finding(line: int, code: str = "WL109", slug: str = "register-spills") -> Finding:
    return Finding(code, slug, "k", Span(line, 1, line, 2), "warning", "high", "m", "g", ())


@pytest.mark.parametrize(
    ("comment", "silent"),
    [
        ("// warplens: ignore WL109: measured, harmless", True),
        ("// warplens: ignore register-spills", True),
        ("/* warplens: ignore WL101, wl109 */", True),
        ("// warplens: ignore", True),
        ("// warplens: ignore WL101: another one", False),
        ("// warplens ignore WL109", False),
        ("// see warplens: it ignores WL109", False),
    ],
)
def test_a_comment_silences_what_it_names(comment: str, silent: bool) -> None:
    text = SourceText(f"int a;\nint b; {comment}\n")
    assert (wanted([finding(2)], suppressions(text), ()) == ()) is silent


def test_a_comment_reaches_its_own_line_and_the_next() -> None:
    comments = suppressions(SourceText("int a;\n// warplens: ignore WL109: reason\nint b;\nint c;\n"))
    kept = wanted([finding(line) for line in (1, 2, 3, 4)], comments, ())
    assert [f.span.line for f in kept] == [1, 4]


def test_ignore_file_reaches_every_line() -> None:
    comments = suppressions(SourceText("// warplens: ignore-file WL109\n\n\n\nint c;\n"))
    assert wanted([finding(5), finding(5, "WL101", "x")], comments, ()) == (finding(5, "WL101", "x"),)


def test_settings_silence_by_code_or_slug() -> None:
    assert wanted([finding(1)], (), ["wl109"]) == ()
    assert wanted([finding(1)], (), ["register-spills"]) == ()
    assert len(wanted([finding(1)], (), ["WL1"])) == 1
