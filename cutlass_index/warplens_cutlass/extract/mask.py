"""Blanks what the grammars cannot read by spaces of equal length, so that offsets stay true.

Measured on CUTLASS 4.2 (`warplens index status --verbose`): without it 4.3 % of header bytes lie in ERROR
nodes, and whole classes such as `Copy_Atom` are lost.
"""

from __future__ import annotations

import re

_PARENS = rb"\((?:[^()]|\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))*\)"

# One pattern each, since every one starts with a literal that the engine can search for: four times faster
# than one alternation over 35 MB.
_PATTERNS = tuple(
    re.compile(pattern, re.M)
    for pattern in (
        # Attributes, pragmas and other macros that expand to no declaration. Assertions stand in class
        # bodies too, where the grammars want a declaration.
        rb"CUT(?:E|LASS)_(?:(?:HOST_DEVICE_RTC|HOST_DEVICE|DEVICE|HOST_RTC|HOST|GLOBAL|UNROLL|NO_UNROLL"
        rb"|PRAGMA_UNROLL|PRAGMA_NO_UNROLL|GRID_CONSTANT|GEMM_LOOP_HEADER|GEMM_LOOP|CONSTEXPR_IF_CXX17"
        rb"|INLINE_CONSTANT|LAMBDA_FUNC_INLINE|STATIC_CONSTEXPR|ATTRIBUTE_UNUSED)\b"
        rb"|ALIGNAS\s*\([^()\n]*\)|STATIC_ASSERT(?:_V)?\s*" + _PARENS + rb"\s*;)",
        rb"__(?:(?:device|host|forceinline|noinline|grid_constant)__\b|(?:cluster_dims|maxnreg)__\s*\([^()\n]*\))",
        # A macro that spells out declarations at file scope.
        rb"\n[A-Z][A-Z0-9_]{3,}\([^()\n]*\)[ \t]*;?[ \t]*$",
        # `typename T::U{}` is a gap of the grammars; before a qualified name the word tells an index nothing.
        rb"typename(?=\s+[\w:]+(?:\s*<[^;{}]*?>)?\s*::)",
    )
)


def mask(source: bytes) -> bytes:
    """`source` with what the grammars cannot read blanked; the length and the line ends stay."""
    for pattern in _PATTERNS:
        source = pattern.sub(_spaces, source)
    return source


_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(?:[^\n\\]|\\\n|\\.)*", re.M)


def first_branches(source: bytes) -> bytes:
    """`source` with conditional directives blanked, and of each `#if` ladder all but the first branch.

    For texts whose branches split a statement, which no grammar can read as they stand.
    """
    pieces: list[bytes] = []
    at = 0
    kept = [True]
    for found in _DIRECTIVE.finditer(source):
        pieces.append(source[at : found.start()] if kept[-1] else _blank(source[at : found.start()]))
        pieces.append(_blank(found[0]))
        at = found.end()
        word = found[1]
        if word.startswith(b"if"):
            kept.append(kept[-1])
        elif word in (b"else", b"elif") and len(kept) > 1:
            kept[-1] = False
        elif word == b"endif" and len(kept) > 1:
            kept.pop()
    pieces.append(source[at:] if kept[-1] else _blank(source[at:]))
    return b"".join(pieces)


def _blank(text: bytes) -> bytes:
    return re.sub(rb"[^\n]", b" ", text)


def _spaces(match: re.Match[bytes]) -> bytes:
    """Blanks of the same length; a name that is just being defined, or is part of a longer one, is kept."""
    text, start = match[0], match.start()
    before = match.string[max(start - 24, 0) : start]
    if before.rstrip().endswith(b"define") or before[-1:].isalnum() or before[-1:] == b"_":
        return text
    return _blank(text)
