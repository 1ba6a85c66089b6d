# SPDX-License-Identifier: Apache-2.0
"""Edits on a file's bytes: whatever its encoding, nothing outside an edit changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens_tools.encoded import EncodedText
from warplens_tools.errors import InputError
from warplens_tools.text import SourceText, Span, TextEdit

#: Source with what editors of thirty years have left in it.
PIECES = st.sampled_from(
    [
        b"float x;",
        b"\n",
        b"\r\n",
        b"\r",
        b"\t",
        b"// caf\xe9",
        b"\xe2\x82",
        b"\xff",
        "µ→𝄞".encode(),
        b"\xed\xa0\x80",
        b" ",
    ]
)
FILES = st.lists(PIECES, max_size=40).map(b"".join)


def head(file: EncodedText, offset: int) -> bytes:
    """The bytes before a character: the rest taken away."""
    return file.apply([TextEdit(file.text.span(offset, len(file.text.text)), "")])


def tail(file: EncodedText, offset: int) -> bytes:
    """The bytes from a character on."""
    return file.apply([TextEdit(file.text.span(0, offset), "")])


@given(FILES, st.integers(0, 200), st.integers(0, 200), st.sampled_from(["", "f", "abc\n"]))
def test_what_no_edit_covers_stays(data: bytes, first: int, second: int, new: str) -> None:
    file = EncodedText(data)
    first, second = sorted((min(first, len(file.text.text)), min(second, len(file.text.text))))
    span = file.text.span(first, second)
    start = file.text.offset(span.line, span.column)
    end = file.text.offset(span.end_line, span.end_column)
    for offset in (start, end):
        assert head(file, offset) + tail(file, offset) == data
    assert file.apply([TextEdit(span, new)]) == head(file, start) + new.encode() + tail(file, end)
    between = (
        tail(file, start).removesuffix(tail(file, end)) if end < len(file.text.text) else tail(file, start)
    )
    assert between.decode("utf-8", errors="replace") == file.text.text[start:end]


@given(st.binary(max_size=200).filter(lambda data: b"\0" not in data))
def test_no_edit_is_no_change(data: bytes) -> None:
    assert EncodedText(data).apply([]) == data


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_utf_16_is_edited_as_utf_16(mark: bytes, text: str) -> None:
    codec = "utf-16-le" if mark == b"\xff\xfe" else "utf-16-be"
    data = mark + text.encode(codec) + b"\x00"  # half a unit at the end, which does not decode
    file = EncodedText(data)
    assert file.apply([TextEdit(Span(1, 1, 1, 1), "ab")]) == mark + "ab".encode(codec) + data[2:]


def test_an_edit_that_would_lose_a_byte_is_refused() -> None:
    file = EncodedText(b"float caf\xe9 = 1.0;\n")
    edit = TextEdit(Span(1, 7, 1, 17), file.text.slice(Span(1, 7, 1, 17)) + "f")
    with pytest.raises(InputError, match="not UTF-8"):
        file.apply([edit])


def test_the_text_is_the_one_that_everything_else_reads() -> None:
    data = b"\xef\xbb\xbfcaf\xe9\r\n\xe2\x82x"
    assert EncodedText(data).text.text == SourceText.decode(data).text
