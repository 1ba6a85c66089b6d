# SPDX-License-Identifier: Apache-2.0
"""Namespaces by counting braces: what remains true where the syntax tree broke and lost them."""

from __future__ import annotations

import re

import msgspec

_TOKEN = re.compile(
    rb"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)'|^[ \t]*#(?:[^\n\\]|\\\n|\\.)*"
    rb"|(?:inline\s+)?\bnamespace\s+([\w:]+)?\s*\{|[{}]",
    re.S | re.M,
)


class NamespaceSpan(msgspec.Struct, frozen=True):
    """Bytes between the braces of a namespace."""

    start: int
    end: int
    name: str


def namespace_spans(source: bytes) -> list[NamespaceSpan]:
    """The named namespaces of a file, outermost first; one that is not closed runs to the end."""
    spans: list[NamespaceSpan] = []
    stack: list[tuple[str | None, int]] = []
    for token in _TOKEN.finditer(source):
        text = token[0]
        if text.endswith(b"{") and (b"namespace" in text or text == b"{"):
            name = token[1].decode() if token[1] else ("" if b"namespace" in text else None)
            stack.append((name, token.end()))
        elif text == b"}" and stack:
            name, start = stack.pop()
            if name:
                spans.append(NamespaceSpan(start, token.start(), name))
    spans += [NamespaceSpan(start, len(source), name) for name, start in stack if name]
    return sorted(spans, key=lambda s: s.start)


def namespace_at(spans: list[NamespaceSpan], offset: int) -> tuple[str, ...]:
    """The namespaces around a byte, outermost first."""
    return tuple(s.name for s in spans if s.start <= offset < s.end)
