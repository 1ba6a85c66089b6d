# SPDX-License-Identifier: Apache-2.0
"""The text as tree-sitter sees it: equal in length, without what its grammar cannot read.

The grammar is tree-sitter-cuda's. What is blanked: comments, string contents, preprocessor directives
and the branches they leave out, specifier macros (also those that the file itself defines),
`__cluster_dims__` and its like, `typename` before a qualified name, the execution space of a lambda, blanks
within the brackets of a launch (`k << <grid, block>> >(…)`, as formatters leave them).
`__global__` and `__launch_bounds__` stay. One code point stays one byte, so offsets need no conversion.

`mask` is for a text of the user's, as its compiler sees it; `mask_library` for headers that are indexed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.cuda.syntax.brackets import Balanced, balance_again
from warplens_tools.cuda.syntax.directives import Directives, read_directives
from warplens_tools.cuda.syntax.lexical import blank, to_ascii, without_comments
from warplens_tools.cuda.syntax.macros import MacroTable, MacroUse, find_uses

# One pattern each, since every one starts with a literal that the engine can search for.
_GAPS = (
    re.compile(r"typename(?<!\wtypename)(?=\s+(?:::)?\w+\s*(?:<|::))"),
    re.compile(r"__(?:host|device)__(?:\s+__(?:host|device)__)*(?=\s*[({])"),
    re.compile(r"\\(?=[ \t]*\n)"),
)
_LAUNCH = re.compile(r"<<[ \t]*<(?!<)([^;{}]*?)>>[ \t]*>(?=\s*\()")


class Masked(msgspec.Struct, frozen=True):
    """A masked text and what was taken out of it."""

    #: ASCII, as long as the text, then the closing brackets that the text lacks.
    code: bytes
    #: The same before macros were taken out and brackets repaired.
    source: str
    directives: Directives
    macros: MacroTable
    uses: tuple[MacroUse, ...]
    #: Offsets at which brackets were repaired: the text has syntax errors there.
    repairs: tuple[int, ...]
    #: How they were found, for the next version of the text; None where none was needed.
    brackets: Balanced | None = None


def mask(
    text: str, defines: Mapping[str, str], macros: MacroTable | None = None, before: Masked | None = None
) -> Masked:
    """Mask `text`; `defines` are the macros of the command line (name to body).

    `macros` replaces the text's own macros where it is a part of another text; `before` is an earlier version.
    """
    code = without_comments(to_ascii(text))
    if "<< <" in code or ">> >" in code:
        code = _LAUNCH.sub(_tight, code)
    directives = read_directives(code, defines)
    code = _blanked(code, directives.blanked)
    macros = macros or MacroTable(directives.macros, directives.undefined, defines)
    uses = find_uses(code, macros)
    buffer = bytearray(code, "ascii")
    for start, end in _gaps(code):
        buffer[start:end] = b" " * (end - start)
    for use in uses:
        buffer[use.start : use.end] = _stand_in(use)
    known = before.brackets if before is not None else None
    balanced, repairs, known = balance_again(buffer.decode("ascii"), known)
    return Masked(balanced, code, directives, macros, tuple(uses), repairs, known)


def _tight(launch: re.Match[str]) -> str:
    """A launch whose brackets stand together, as long as before."""
    first, last = launch.start(1) - launch.start() - 3, launch.end() - launch.end(1) - 3
    return "<<<" + " " * first + launch[1] + " " * last + ">>>"


def _gaps(code: str) -> Iterator[tuple[int, int]]:
    """`typename` before a qualified name, the execution space of a lambda, a line's continuation."""
    typename, space, continued = _GAPS
    for found in (*typename.finditer(code), *continued.finditer(code)):
        yield found.span()
    for found in space.finditer(code):
        before = code[max(found.start() - 200, 0) : found.start()].rstrip()
        if before.endswith("]") and not before.endswith("]]"):
            yield found.span()


def _blanked(code: str, ranges: tuple[tuple[int, int], ...]) -> str:
    if not ranges:
        return code
    buffer = bytearray(code, "ascii")
    for start, end in ranges:
        buffer[start:end] = blank(code[start:end]).encode()
    return buffer.decode("ascii")


def _stand_in(use: MacroUse) -> bytes:
    """What stands for a use: nothing, or for a kernel header a name the grammar reads as a function."""
    size = use.end - use.start
    if use.kind != "header" or size < 3:
        return b" " * size
    has_parameters = use.expansion.rstrip().endswith(")")
    return (b"k()" if has_parameters else b"k").ljust(size)


_PARENS = rb"\((?:[^()]|\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\))*\)"

# One pattern each, since every one starts with a literal that the engine can search for: four times faster
# than one alternation over 35 MB.
_LIBRARY_MACROS = tuple(
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


def mask_library(source: bytes) -> bytes:
    """The bytes of a library header with what the grammars cannot read blanked, for an index of it.

    Unlike `mask` it keeps comments, and all branches of `#if` ladders, since an index describes each of
    them; it knows the macros of CUTLASS by name instead of expanding the includes. On CUTLASS 4.2 it brings
    the share of header bytes inside ERROR nodes from 4.3 % to 0.05 %.
    """
    for pattern in _LIBRARY_MACROS:
        source = pattern.sub(_unless_defined, source)
    return source


_CONDITIONAL = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(?:[^\n\\]|\\\n|\\.)*", re.M)


def first_branches(source: bytes) -> bytes:
    """`source` with conditional directives blanked, and of each `#if` ladder all but the first branch.

    For texts whose branches split a statement, which no grammar can read as they stand.
    """
    pieces: list[bytes] = []
    at = 0
    kept = [True]
    for found in _CONDITIONAL.finditer(source):
        pieces.append(source[at : found.start()] if kept[-1] else _spaces(source[at : found.start()]))
        pieces.append(_spaces(found[0]))
        at = found.end()
        word = found[1]
        if word.startswith(b"if"):
            kept.append(kept[-1])
        elif word in (b"else", b"elif") and len(kept) > 1:
            kept[-1] = False
        elif word == b"endif" and len(kept) > 1:
            kept.pop()
    pieces.append(source[at:] if kept[-1] else _spaces(source[at:]))
    return b"".join(pieces)


def _spaces(text: bytes) -> bytes:
    return re.sub(rb"[^\n]", b" ", text)


def _unless_defined(match: re.Match[bytes]) -> bytes:
    """Blanks of the same length; a name that is just being defined, or is part of a longer one, is kept."""
    text, start = match[0], match.start()
    before = match.string[max(start - 24, 0) : start]
    if before.rstrip().endswith(b"define") or before[-1:].isalnum() or before[-1:] == b"_":
        return text
    return _spaces(text)
