# SPDX-License-Identifier: Apache-2.0
"""Positions of every negotiated encoding lead back to the same character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from warplens.lsp.convert import Positions
from warplens.lsp.documents import Document
from warplens_tools.text import SourceText, Span

lines = st.text(st.sampled_from("ab \tµ\u2028\f𝛼😀é\u0301"), max_size=30)
texts = st.text(st.sampled_from("ab \t\n\rµ😀\f\u2028"), max_size=60)
encodings = st.sampled_from(["utf-8", "utf-16", "utf-32"])
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@given(lines, st.integers(1, 31), encodings)
def test_a_column_survives_the_round_trip(line: str, column: int, encoding: str) -> None:
    positions = Positions(encoding)
    column = min(column, len(line) + 1)
    assert positions.column(line, positions.units(line, column)) == column


@given(lines, st.integers(1, 31), encodings)
def test_units_are_those_of_the_encoding(line: str, column: int, encoding: str) -> None:
    codec, size = CODECS[encoding]
    expected = len(line[: column - 1].encode(codec)) // size
    assert Positions(encoding).units(line, column) == expected


@given(lines, st.integers(0, 200), encodings)
def test_any_unit_falls_on_a_character(line: str, units: int, encoding: str) -> None:
    assert 1 <= Positions(encoding).column(line, units) <= len(line) + 1


def test_half_a_character_rounds_down() -> None:
    assert Positions("utf-16").column("😀x", 1) == 1
    assert Positions("utf-8").column("µx", 1) == 1


@given(texts, st.integers(0, 60), st.integers(0, 60), st.text("x\n😀\r", max_size=4), encodings)
def test_an_incremental_edit_gives_the_clients_text(
    text: str, a: int, b: int, new: str, encoding: str
) -> None:
    positions, source = Positions(encoding), SourceText(text)
    start, end = sorted((min(a, len(text)), min(b, len(text))))
    # A client states positions on characters, which the middle of "\r\n" is not.
    span = Span(*source.position(start), *source.position(end))
    start, end = (
        source.offset(span.line, span.column),
        source.offset(span.end_line, span.end_column),
    )
    document = Document("untitled:1", "cuda-cpp", 1, text)
    change = types.TextDocumentContentChangePartial(positions.range(source, span), new)
    document.apply(positions.change(document.text, change))
    assert document.text.text == text[:start] + new + text[end:]


@pytest.mark.parametrize("half", ["\ud83d", "\ude00"])
def test_half_a_surrogate_pair_is_replaced_by_one_unit(half: str) -> None:
    document = Document("untitled:1", "cuda-cpp", 1, f"a{half}b")
    assert document.text.text == "a\ufffdb"
