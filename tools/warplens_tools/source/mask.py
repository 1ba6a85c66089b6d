"""The text as tree-sitter sees it: equal in length, without what its grammar cannot read.

The grammar is tree-sitter-cuda's. What is blanked: comments, string contents, preprocessor directives
and the branches they leave out, specifier macros (also those that the file itself defines),
`__cluster_dims__` and its like, `typename` before a qualified name, the execution space of a lambda.
`__global__` and `__launch_bounds__` stay. One code point stays one byte, so offsets need no conversion.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from warplens_tools.source.brackets import balance
from warplens_tools.source.directives import Directives, read_directives
from warplens_tools.source.lexical import blank, to_ascii, without_comments
from warplens_tools.source.macros import MacroTable, MacroUse, find_uses

_GAPS = re.compile(
    r"(?P<typename>typename(?<!\wtypename)(?=\s+(?:::)?\w+\s*(?:<|::)))"
    r"|\](?<!\]\])\s*(?P<space>(?:__host__|__device__)(?:\s+(?:__host__|__device__))*)(?=\s*[({])"
    r"|(?P<continued>\\(?=[ \t]*\n))"
)


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


def mask(text: str, defines: Mapping[str, str], macros: MacroTable | None = None) -> Masked:
    """Mask `text`; `defines` are the macros of the command line (name to body).

    `macros` replaces the text's own macros where it is a part of another text.
    """
    code = without_comments(to_ascii(text))
    directives = read_directives(code, defines)
    code = _blanked(code, directives.blanked)
    macros = macros or MacroTable(directives.macros, directives.undefined, defines)
    uses = find_uses(code, macros)
    buffer = bytearray(code, "ascii")
    for found in _GAPS.finditer(code):
        group = found.lastgroup or ""
        buffer[found.start(group) : found.end(group)] = b" " * len(found[group])
    for use in uses:
        buffer[use.start : use.end] = _stand_in(use)
    balanced, repairs = balance(buffer.decode("ascii"))
    return Masked(balanced, code, directives, macros, tuple(uses), repairs)


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
