# SPDX-License-Identifier: Apache-2.0
"""Source text with positions, and edits on it.

One convention everywhere above tree-sitter: lines and columns are 1-based, columns count code points,
and a span's end is exclusive. Byte offsets stay inside `warplens_tools.cuda`, UTF-16 units inside
`warplens.lsp`.
"""

from __future__ import annotations

import bisect
import copy
import difflib
import hashlib
import itertools
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from warplens_tools.errors import InputError

_NEWLINE = re.compile(r"\r\n|\n|\r")
#: What a file may begin with, and the encoding that it means.
BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)


class Span(msgspec.Struct, frozen=True, order=True):
    """A stretch of text: 1-based lines, 1-based code-point columns, exclusive end."""

    line: int
    column: int
    end_line: int
    end_column: int

    def contains(self, other: Span) -> bool:
        """Whether `other` lies inside this span."""
        return (self.line, self.column) <= (other.line, other.column) and (
            other.end_line,
            other.end_column,
        ) <= (self.end_line, self.end_column)

    def moved(self, lines: int) -> Span:
        """The same so many lines further down."""
        return Span(self.line + lines, self.column, self.end_line + lines, self.end_column)

    def contains_line(self, line: int) -> bool:
        """Whether 1-based `line` is one of the span's lines."""
        return self.line <= line <= self.end_line


class TextEdit(msgspec.Struct, frozen=True):
    """Replace `span` by `new_text` (an empty span inserts)."""

    span: Span
    new_text: str


class SourceText:
    """A file's text, immutable, with its line table.

    `newline` is the file's own line ending ("\\n" or "\\r\\n"); a rewrite that adds lines uses it.
    Lines end at "\\n", "\\r\\n" or "\\r", as in the language server protocol.
    `defines` are the macros (name to body) of the command line that the text is compiled with.
    `digest` is the SHA-256 of the bytes that it was decoded from, "" for a text that was not.
    """

    def __init__(
        self,
        text: str,
        *,
        encoding: str = "utf-8",
        defines: Mapping[str, str] | None = None,
        digest: str = "",
    ) -> None:
        self.text = text
        self.digest = digest
        self.encoding = encoding
        self.defines = dict(defines or {})
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self._starts = _line_starts(text)

    def replaced(self, start: int, end: int, new: str) -> SourceText:
        """The text with the code points of [start, end) replaced; the lines outside are not counted again.

        Macros and encoding stay; the digest goes.
        """
        text = self.text[:start] + new + self.text[end:]
        if "\r" in text:
            return SourceText(text, encoding=self.encoding, defines=self.defines)
        made = SourceText.__new__(SourceText)
        made.text, made.encoding, made.digest, made.newline = text, self.encoding, "", "\n"
        made.defines = self.defines
        first, last = bisect.bisect_right(self._starts, start), bisect.bisect_right(self._starts, end)
        by = len(new) - (end - start)
        inside = [start + n for n in _line_starts(new)[1:]]
        made._starts = [*self._starts[:first], *inside, *(at + by for at in self._starts[last:])]
        return made

    @classmethod
    def read(cls, path: Path) -> SourceText:
        """Read `path`, honouring a UTF-8 or UTF-16 byte-order mark; undecodable bytes are replaced.

        Raises:
            InputError: the file cannot be read, or is binary.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from error
        return cls.decode(data, name=str(path))

    @classmethod
    def decode(cls, data: bytes, *, name: str = "<text>") -> SourceText:
        """Decode a file's bytes; see `read`."""
        digest = hashlib.sha256(data).hexdigest()
        for mark, encoding in BYTE_ORDER_MARKS:
            if data.startswith(mark):
                text = data[len(mark) :].decode(encoding.removesuffix("-sig"), errors="replace")
                return cls(text, encoding=encoding, digest=digest)
        if b"\0" in data[:8192]:
            raise InputError(f"{name} is a binary file, not CUDA source")
        return cls(data.decode("utf-8", errors="replace"), digest=digest)

    def compiled_with(self, defines: Mapping[str, str]) -> SourceText:
        """The same text under the macros of a command line."""
        made = copy.copy(self)
        made.defines = dict(defines)
        return made

    @property
    def line_count(self) -> int:
        """The number of lines; an empty text has one."""
        return len(self._starts)

    def lines(self) -> list[str]:
        """The lines, each with its own ending."""
        return [line for line in map(self._line, range(len(self._starts))) if line]

    def _line(self, index: int) -> str:
        end = self._starts[index + 1] if index + 1 < len(self._starts) else len(self.text)
        return self.text[self._starts[index] : end]

    def line_text(self, line: int) -> str:
        """Text of 1-based `line` without its ending; "" outside the text."""
        if not 1 <= line <= len(self._starts):
            return ""
        return self._line(line - 1).rstrip("\r\n")

    def margin(self, line: int) -> str:
        """The white space that 1-based `line` begins with."""
        text = self.line_text(line)
        return text[: len(text) - len(text.lstrip())]

    def with_line(self, span: Span) -> Span:
        """The whole of its line, where what a span covers stands alone on one; else the span."""
        alone = span.line == span.end_line and self.line_text(span.line).strip() == self.slice(span).strip()
        return Span(span.line, 1, span.line + 1, 1) if alone else span

    def offset(self, line: int, column: int) -> int:
        """Code-point offset of a position, clamped into the text."""
        if line > len(self._starts):
            return len(self.text)
        start = self._starts[max(line, 1) - 1]
        return min(start + max(column, 1) - 1, start + len(self.line_text(line)))

    def position(self, offset: int) -> tuple[int, int]:
        """(line, column) of a code-point offset, clamped into the text."""
        offset = min(max(offset, 0), len(self.text))
        index = bisect.bisect_right(self._starts, offset) - 1
        return index + 1, offset - self._starts[index] + 1

    def span(self, start: int, end: int) -> Span:
        """The span between two code-point offsets."""
        return Span(*self.position(start), *self.position(end))

    def offsets(self, span: Span) -> tuple[int, int]:
        """The code-point offsets that a span begins and ends at."""
        return self.offset(span.line, span.column), self.offset(span.end_line, span.end_column)

    def slice(self, span: Span) -> str:
        """The text a span covers."""
        start, end = self.offsets(span)
        return self.text[start:end]

    def apply(self, edits: list[TextEdit]) -> SourceText:
        """The text after all `edits`, each given against this text.

        Raises:
            InputError: two edits overlap.
        """
        spans = sorted((*self.offsets(edit.span), i) for i, edit in enumerate(edits))
        parts: list[str] = []
        at = 0
        for start, end, index in spans:
            if start < at:
                raise InputError("two edits of the same text overlap")
            parts += [self.text[at:start], edits[index].new_text]
            at = end
        parts.append(self.text[at:])
        return SourceText("".join(parts), encoding=self.encoding, defines=self.defines)

    def encode(self) -> bytes:
        """The bytes to write back, with the byte-order mark the file came with."""
        marks = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
        return marks.get(self.encoding, b"") + self.text.encode(self.encoding)


def unified_diff(before: SourceText, after: SourceText, *, path: str) -> str:
    """A unified diff that `git apply` and `patch -p1` accept; "" when nothing changed."""
    lines = difflib.unified_diff(
        before.lines(),
        after.lines(),
        fromfile=f"a/{path}",
        tofile=f"b/{path}",
    )
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )


def _line_starts(text: str) -> list[int]:
    if "\r" not in text:
        lengths = [len(line) + 1 for line in text.split("\n")]
        return [0, *itertools.accumulate(lengths[:-1])]
    return [0, *(match.end() for match in _NEWLINE.finditer(text))]
