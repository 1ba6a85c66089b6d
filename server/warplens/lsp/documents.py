# SPDX-License-Identifier: Apache-2.0
"""Open documents: their text as the editor has it, and the changes since any earlier state of it.

Kept apart from pygls' own copy, which splits lines at form feeds and Unicode separators and so would
put a position after one of these on another line than the client.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from warplens.lsp import uris
from warplens.lsp.shift import LineChange, line_changes
from warplens_tools.text import SourceText, Span

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_HISTORY = 4000


class ContentChange(msgspec.Struct, frozen=True):
    """One edit of the client: `span` None replaces the whole text."""

    span: Span | None
    text: str


class Document:
    """An open document. Only the event loop may change it; `text` itself is immutable."""

    def __init__(self, uri: str, language: str, version: int, text: str) -> None:
        self.uri = uri
        self.path: Path | None = uris.to_path(uri)
        self.language = language
        self.version = version
        self.text = SourceText(_encodable(text))
        self._history: list[LineChange] = []
        self._forgotten = 0

    @property
    def state(self) -> int:
        """A number for the text as it is now, for `changes_since`."""
        return self._forgotten + len(self._history)

    def apply(self, change: ContentChange) -> list[LineChange]:
        """Apply one edit, given against the present text; returns the lines it changed."""
        old = self.text
        if change.span is None:
            first, last = 1, old.line_count
            self.text = SourceText(_encodable(change.text))
        else:
            span = change.span
            start, end = old.offset(span.line, span.column), old.offset(span.end_line, span.end_column)
            start, end = min(start, end), max(start, end)
            first, last = old.position(start)[0], old.position(end)[0]
            self.text = old.replaced(start, end, _encodable(change.text))
        changes = line_changes(old, self.text, first, last)
        self._history += changes
        if len(self._history) > _HISTORY:
            self._forgotten += len(self._history) - _HISTORY
            del self._history[:-_HISTORY]
        return changes

    def changes_since(self, state: int) -> Sequence[LineChange] | None:
        """The changes since `state`; None if they are no longer known, so results of it must go."""
        if state < self._forgotten:
            return None
        return self._history[state - self._forgotten :]


def _encodable(text: str) -> str:
    """Half a surrogate pair cannot be encoded; one replacement character takes the same UTF-16 unit."""
    return _LONE_SURROGATE.sub("\ufffd", text)
