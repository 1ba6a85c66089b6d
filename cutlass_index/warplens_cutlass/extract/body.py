# SPDX-License-Identifier: Apache-2.0
"""What a body mentions: identifiers and PTX operations. Plain scans, no tree."""

from __future__ import annotations

import re

_COMMENT_OR_STRING = re.compile(rb'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{2,79}")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]{1,200})[>"]', re.M)
#: An instruction of PTX: a word of `_PTX_ROOTS` followed by dotted qualifiers.
_PTX = re.compile(r"(?<![\w.%])([a-z][a-z0-9_]*(?:\.[a-zA-Z0-9_:]+)+)")
_ASM = re.compile(r"\basm\b\s*(?:volatile|__volatile__)?\s*(?:goto\s*)?\(|\b__asm__\b")
_PTX_NOISE = frozenset(
    ("reg", "pred", "param", "visible", "entry", "version", "target", "setp", "mov", "selp", "cvta")
)
_KEYWORDS = frozenset(
    b"const int void auto static constexpr inline return typename template class struct using namespace bool true "
    b"false uint32_t uint64_t int32_t int64_t size_t std for while else float double half char this operator "
    b"unsigned signed sizeof public private protected virtual friend explicit noexcept default delete break "
    b"continue switch case volatile asm enable_if_t decltype define ifdef endif ifndef include pragma once "
    b"the and type value".split()
)
_MAX_MENTIONS = 90
_MAX_REMARKS = 6000


def mentions_of(head: bytes, body: bytes, *, shallow: bool = False) -> tuple[str, ...]:
    """Identifiers of a definition, each once, in order. `shallow` reads the first 20 000 bytes."""
    text = head + b" " + (body[:20_000] if shallow else body)
    seen: dict[bytes, None] = {}
    for name in _IDENTIFIER.findall(_COMMENT_OR_STRING.sub(b" ", text)):
        if name not in _KEYWORDS:
            seen.setdefault(name)
            if len(seen) >= _MAX_MENTIONS:
                break
    return tuple(name.decode() for name in seen)


def includes_of(source: bytes) -> tuple[str, ...]:
    """What a file includes, as written, each once: "cute/layout.hpp"."""
    return tuple(dict.fromkeys(name.decode("utf-8", "replace") for name in _INCLUDE.findall(source)))


def remarks_of(source: bytes) -> str:
    """The text of the comments inside some code, and of its longer strings, without markup; at most 6000 bytes.

    Strings with blanks are messages, help texts and labels: they say in prose what the code is about.
    """
    found: list[bytes] = []
    room = _MAX_REMARKS
    for text in _COMMENT_OR_STRING.findall(source):
        if text.startswith(b'"') and text.count(b" ") < 2:
            continue
        found.append(text)
        room -= len(text)
        if room < 0:
            break
    return b" ".join(found)[:_MAX_REMARKS].decode("utf-8", "replace")


def file_mentions(source: bytes) -> tuple[tuple[str, int, int], ...]:
    """(identifier, occurrences, 1-based line of the first) of a file's code without comments and strings."""
    code = _COMMENT_OR_STRING.sub(_keep_lines, source)
    counts: dict[bytes, int] = {}
    first: dict[bytes, int] = {}
    for number, line in enumerate(code.split(b"\n"), start=1):
        for name in _IDENTIFIER.findall(line):
            if name in counts:
                counts[name] += 1
            else:
                counts[name], first[name] = 1, number
    return tuple((n.decode(), c, first[n]) for n, c in counts.items() if n not in _KEYWORDS)


def _keep_lines(match: re.Match[bytes]) -> bytes:
    return b"\n" * match[0].count(b"\n") or b" "


def ptx_operations(body: bytes) -> tuple[str, ...]:
    """PTX operations in `asm` statements: each with all its qualifiers, in order, once.

    >>> ptx_operations(b'asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0}, [%1];");')
    ('ldmatrix.sync.aligned.x4.m8n8.shared.b16',)
    """
    if b"asm" not in body:
        return ()
    text = body.decode("utf-8", "replace")
    start = _ASM.search(text)
    if start is None:
        return ()
    found: dict[str, None] = {}
    for string in _STRING.findall(text, start.start()):
        for operation in ptx_of_text(string):
            found.setdefault(operation)
        if len(found) > 24:
            break
    return tuple(op for op in found if not any(other.startswith(op + ".") for other in found))


def ptx_of_text(text: str) -> list[str]:
    """PTX operations in bare assembly text."""
    return [
        op for op in _PTX.findall(text) if op.split(".", 1)[0] not in _PTX_NOISE and not op.endswith(".h")
    ]
