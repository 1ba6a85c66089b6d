# SPDX-License-Identifier: Apache-2.0
"""Chains of edits, expressed against the text the user has open."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from warplens_tools.text import SourceText, TextEdit

#: A stretch of the composed text: where it begins in the baseline (None if it was inserted), and the text.
_Piece = tuple[int | None, str]


def text_hash(text: SourceText) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.text.encode("utf-8", "surrogatepass")).hexdigest()


def compose(
    baseline: SourceText, first: Sequence[TextEdit], second: Sequence[TextEdit]
) -> tuple[TextEdit, ...]:
    """Edits on `baseline` that do what `first` and then `second` (given against the result) do.

    Stretches that end up as they began are left out, so that undoing an edit leaves no trace.

    Raises:
        InputError: edits of one list overlap.
    """
    pieces = _edit([(0, baseline.text)], baseline, first)
    pieces = _edit(pieces, baseline.apply(list(first)), second)
    return _read_out(baseline, pieces)


def _edit(pieces: list[_Piece], text: SourceText, edits: Sequence[TextEdit]) -> list[_Piece]:
    text.apply(list(edits))  # refuses overlaps
    result: list[_Piece] = []
    at = 0
    for start, end, new in sorted(
        (text.offset(e.span.line, e.span.column), text.offset(e.span.end_line, e.span.end_column), e.new_text)
        for e in edits
    ):
        result += [*_cut(pieces, at, start), (None, new)]
        at = end
    return result + _cut(pieces, at, len(text.text))


def _cut(pieces: list[_Piece], start: int, end: int) -> list[_Piece]:
    """The part of `pieces` between two offsets of the text they make up."""
    result: list[_Piece] = []
    at = 0
    for origin, text in pieces:
        low, high = max(start - at, 0), min(end - at, len(text))
        if low < high:
            result.append((None if origin is None else origin + low, text[low:high]))
        at += len(text)
    return result


def _read_out(baseline: SourceText, pieces: list[_Piece]) -> tuple[TextEdit, ...]:
    edits: list[TextEdit] = []
    at, inserted = 0, ""
    for origin, text in [*pieces, (len(baseline.text), "")]:
        if origin is None:
            inserted += text
            continue
        if baseline.text[at:origin] != inserted:
            edits.append(TextEdit(baseline.span(at, origin), inserted))
        at, inserted = origin + len(text), ""
    return tuple(edits)
