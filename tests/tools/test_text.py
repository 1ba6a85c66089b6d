# SPDX-License-Identifier: Apache-2.0
"""Positions and edits on text, as properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.errors import InputError
from warplens_tools.text import SourceText, Span, TextEdit, unified_diff

texts = st.text(st.sampled_from("ab \t\n\rµ😀\f\u2028"), max_size=60)


@given(texts, st.integers(0, 60))
def test_a_position_leads_back_to_its_offset(text: str, offset: int) -> None:
    source = SourceText(text)
    offset = min(offset, len(text))
    line, column = source.position(offset)
    inside_ending = source.line_text(line) + "\n" < text[source.offset(line, 1) : offset]
    assert inside_ending or source.offset(line, column) <= offset


@given(texts)
def test_lines_join_to_the_text(text: str) -> None:
    source = SourceText(text)
    assert "".join(source.lines()) == text


@given(texts, st.integers(0, 60), st.integers(0, 60), st.text("xy\n", max_size=4))
def test_an_edit_replaces_exactly_its_span(text: str, a: int, b: int, new: str) -> None:
    source = SourceText(text)
    start, end = sorted((min(a, len(text)), min(b, len(text))))
    span = source.span(start, end)
    s, e = source.offset(span.line, span.column), source.offset(span.end_line, span.end_column)
    assert source.apply([TextEdit(span, new)]).text == text[:s] + new + text[e:]


@given(texts, st.integers(0, 60), st.integers(0, 60), st.text("xy\n\r", max_size=4))
def test_replaced_text_has_the_lines_of_the_whole(text: str, a: int, b: int, new: str) -> None:
    start, end = sorted((min(a, len(text)), min(b, len(text))))
    made = SourceText(text).replaced(start, end, new)
    whole = SourceText(text[:start] + new + text[end:])
    assert (made.text, made.newline, made.lines()) == (whole.text, whole.newline, whole.lines())
    assert [made.position(at) for at in range(len(made.text) + 1)] == [
        whole.position(at) for at in range(len(whole.text) + 1)
    ]


def test_overlapping_edits_are_refused() -> None:
    source = SourceText("abcdef")
    with pytest.raises(InputError, match="overlap"):
        source.apply([TextEdit(Span(1, 1, 1, 4), "x"), TextEdit(Span(1, 3, 1, 5), "y")])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_survives_reading_and_writing(encoding: str) -> None:
    marks = {"utf-8-sig": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
    data = marks[encoding] + "int µ;\r\n".encode(encoding.removesuffix("-sig"))
    source = SourceText.decode(data)
    assert source.text == "int µ;\r\n"
    assert source.newline == "\r\n"
    assert source.encode() == data


def test_a_binary_file_is_refused() -> None:
    with pytest.raises(InputError, match="binary"):
        SourceText.decode(b"\x7fELF\x00\x01")


def test_a_diff_says_where_a_final_newline_is_missing() -> None:
    diff = unified_diff(SourceText("a\nb"), SourceText("a\nc"), path="k.cu")
    assert diff.splitlines() == [
        "--- a/k.cu",
        "+++ b/k.cu",
        "@@ -1,2 +1,2 @@",
        " a",
        "-b",
        "\\ No newline at end of file",
        "+c",
        "\\ No newline at end of file",
    ]
