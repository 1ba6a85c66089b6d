# SPDX-License-Identifier: Apache-2.0
"""A result never lands on a line whose text is not the one it was computed for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.lsp import documents
from warplens.lsp.documents import ContentChange, Document
from warplens.lsp.shift import LineChange, carry_finding, differences, shift_lines
from warplens_tools.finding import Finding
from warplens_tools.text import SourceText, Span

texts = st.text(st.sampled_from("ab\n\r"), max_size=40)
edits = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 40), st.text("ab\n\r", max_size=6), st.booleans()),
    max_size=6,
)


@given(texts, edits)
def test_a_shifted_line_has_the_text_it_had(text: str, changes: list[tuple[int, int, str, bool]]) -> None:
    document = Document("untitled:1", "cuda-cpp", 1, text)
    before, state = document.text, document.state
    for a, b, new, whole in changes:
        source = document.text
        span = Span(*source.position(min(a, b)), *source.position(max(a, b)))
        document.apply(ContentChange(None if whole else span, new))
    _same_text(before, document.text, list(document.changes_since(state) or []))


@given(texts, texts)
def test_a_line_moved_by_a_diff_has_the_text_it_had(old: str, new: str) -> None:
    before, after = SourceText(old), SourceText(new)
    _same_text(before, after, differences(before, after))


def _same_text(before: SourceText, after: SourceText, changes: list[LineChange]) -> None:
    assert before.line_count + sum(c.added - c.removed for c in changes) == after.line_count
    for line in range(1, before.line_count + 1):
        moved = shift_lines(line, line, changes)
        if moved is not None:
            assert after.line_text(moved[0]) == before.line_text(line)


def test_an_edit_elsewhere_keeps_every_other_line() -> None:
    document = Document("untitled:1", "cuda-cpp", 1, "a\nb\nc\nd\n")
    state = document.state
    document.apply(ContentChange(Span(2, 1, 2, 2), "x\ny"))
    changes = document.changes_since(state)
    assert changes is not None
    assert [shift_lines(n, n, changes) for n in (1, 2, 3, 4)] == [(1, 1), None, (4, 4), (5, 5)]


def test_a_line_inserted_inside_a_span_drops_it() -> None:
    insert = [LineChange(3, 0, 1)]
    assert shift_lines(2, 3, insert) is None
    assert shift_lines(3, 4, insert) == (4, 5)
    assert shift_lines(1, 2, insert) == (1, 2)


def test_changes_too_old_to_be_known_are_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_HISTORY", 10)
    document = Document("untitled:1", "cuda-cpp", 1, "a\n")
    state = document.state
    for _ in range(11):
        document.apply(ContentChange(Span(1, 1, 1, 1), "x\n"))
    assert document.changes_since(state) is None
    assert document.changes_since(document.state) == []


@pytest.mark.parametrize(
    ("span", "new", "now"),
    [
        (Span(1, 1, 1, 1), "aa", (1, 7, 1, 9)),
        (Span(1, 3, 1, 5), "", (1, 3, 1, 5)),
        (Span(1, 9, 1, 9), "b", (1, 5, 1, 7)),
        (Span(1, 6, 1, 6), "bb", (1, 5, 1, 9)),
        (Span(1, 1, 1, 1), "a\n", (2, 5, 2, 7)),
    ],
)
def test_a_finding_moves_within_its_line(span: Span, new: str, now: tuple[int, int, int, int]) -> None:
    document = Document("untitled:1", "cuda-cpp", 1, "int x = 1;\nint y;\n")
    finding = Finding("WL1", "one", "", Span(1, 5, 1, 7), "warning", "high", "m", "g", ())
    moved = carry_finding(finding, document.apply(ContentChange(span, new)))
    assert moved is not None and moved[0].span == Span(*now)
