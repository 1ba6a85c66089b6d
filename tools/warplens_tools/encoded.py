# SPDX-License-Identifier: Apache-2.0
"""A file's bytes beside the text that was read from them, so that an edit changes its own bytes and no others."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from warplens_tools.errors import InputError
from warplens_tools.text import BYTE_ORDER_MARKS, SourceText, TextEdit

#: What stands in the text for bytes that do not decode.
REPLACEMENT = "\ufffd"
_HANDLER = "warplens-keep"


class _Piece(NamedTuple):
    """Bytes from `start` on that decode to text from `offset` on; undecodable ones stand for one character."""

    offset: int
    start: int
    decodes: bool


class EncodedText:
    """A file as it is on disk. `text` is what `SourceText.decode` makes of `data`, character for character."""

    def __init__(self, data: bytes, *, name: str = "<text>") -> None:
        """Decode `data`.

        Raises:
            InputError: the file is binary.
        """
        self.data = data
        self.text = SourceText.decode(data, name=name)
        self._codec = self.text.encoding.removesuffix("-sig")
        self._pieces = _pieces(data, self._codec, _mark_length(data))

    @classmethod
    def read(cls, path: Path) -> EncodedText:
        """Read `path`.

        Raises:
            InputError: the file cannot be read, or is binary.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from error
        return cls(data, name=str(path))

    def apply(self, edits: Sequence[TextEdit]) -> bytes:
        """The bytes after all `edits`; what no edit covers stays as it is, whether it decodes or not.

        Raises:
            InputError: two edits overlap, or one would write a character in place of bytes that do not decode.
        """
        cuts = sorted((*self._extent(edit), index) for index, edit in enumerate(edits))
        parts: list[bytes] = []
        at = 0
        for start, end, index in cuts:
            if start < at:
                raise InputError("two edits of the same text overlap")
            parts += [self.data[at:start], self._encoded(edits[index])]
            at = end
        return b"".join([*parts, self.data[at:]])

    def _extent(self, edit: TextEdit) -> tuple[int, int]:
        start, end = self.text.offsets(edit.span)
        return self._byte(start), self._byte(end)

    def _encoded(self, edit: TextEdit) -> bytes:
        if REPLACEMENT in edit.new_text:
            raise InputError(
                f"line {edit.span.line} holds bytes that are not {self._codec.upper()}, and the edit would lose them",
                remedy="make the edit by hand, or save the file as UTF-8",
            )
        return edit.new_text.encode(self._codec)

    def _byte(self, offset: int) -> int:
        """The byte at which the character at `offset` begins."""
        low, high = 0, len(self._pieces)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._pieces[middle].offset <= offset else (low, middle)
        piece = self._pieces[low]
        if not piece.decodes:
            return piece.start
        return piece.start + len(self.text.text[piece.offset : offset].encode(self._codec))


def _mark_length(data: bytes) -> int:
    return next((len(mark) for mark, _ in BYTE_ORDER_MARKS if data.startswith(mark)), 0)


def _pieces(data: bytes, codec: str, start: int) -> list[_Piece]:
    """Where decodable and undecodable bytes take turns, in order; at least one piece."""
    body = data[start:]
    pieces: list[_Piece] = []
    offset = at = 0
    for bad, good in _undecodable(body, codec):
        if bad > at or not pieces:
            pieces.append(_Piece(offset, start + at, decodes=True))
            offset += len(body[at:bad].decode(codec))
        pieces.append(_Piece(offset, start + bad, decodes=False))
        offset, at = offset + 1, good
    return [*pieces, _Piece(offset, start + at, decodes=True)]


def _undecodable(body: bytes, codec: str) -> Iterable[tuple[int, int]]:
    """The stretches that the codec gives one replacement character each."""
    found: list[tuple[int, int]] = []

    def note(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeDecodeError):
            raise error
        found.append((error.start, error.end))
        return REPLACEMENT, error.end

    codecs.register_error(_HANDLER, note)
    body.decode(codec, errors=_HANDLER)
    return found
