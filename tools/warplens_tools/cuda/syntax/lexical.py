# SPDX-License-Identifier: Apache-2.0
"""What the C++ lexer removes before anything else: comments, string contents, odd line endings.

Every function keeps the length: offset i of the result speaks of code point i of the text.
"""

from __future__ import annotations

import re

_NON_ASCII = re.compile(r"[^\x00-\x7f]")
_NOT_NEWLINE = re.compile(r"[^\n]")

# Each alternative begins with a plain character, which lets the search skip what begins none. A quote
# behind a hexadecimal digit separates digits, as in 1'000, and opens no character literal;
# one that closes nowhere is taken out, since the grammar would look for its end.
_LITERALS = re.compile(
    r"//(?:\\[ \t]*\n|[^\n])*"
    r"|/\*[\s\S]*?(?:\*/|\Z)"
    r"|R\"(?<!\wR\")([^()\\\s\"]{0,16})\([\s\S]*?(?:\)\1\"|\Z)"
    r"|\"(?:\\[^\n]|\\[ \t]*\n|[^\"\\\n])*(?:\"|(?=\n)|\Z)"
    r"|'(?<![0-9a-fA-F]')(?:\\[^\n]|[^'\\\n]){1,12}'"
    r"|'(?<![0-9a-fA-F]')"
)


def to_ascii(text: str) -> str:
    """`text` with each non-ASCII code point as one ASCII character, and every line ending as a line feed.

    Letters become "_" (they stand in identifiers), everything else a space, so that one code point is
    one byte and tree-sitter's byte offsets are code-point offsets.
    """
    if not text.isascii():
        text = _NON_ASCII.sub(lambda m: "_" if m[0].isalnum() else " ", text)
    if "\r" in text:
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    return text.replace("\0", " ").replace("\f", " ").replace("\v", " ")


def blank(text: str) -> str:
    """As many spaces as `text` is long, with its line feeds kept."""
    return _NOT_NEWLINE.sub(" ", text)


def without_comments(ascii_text: str, *, keep_strings: bool = False) -> str:
    """`ascii_text` with comments blanked and, unless they are kept, string contents; quotes stay.

    `"C"`, `"C++"` and the target of `#include` stay, since the grammar and the include graph read them.
    An unterminated comment reaches to the end, an unterminated string to the end of its line.
    """
    if keep_strings:
        return _LITERALS.sub(lambda m: blank(m[0]) if m[0][0] == "/" else m[0], ascii_text)
    return _LITERALS.sub(_blank_literal, ascii_text)


def _blank_literal(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] == "R":
        return '""' + " " * (len(text) - 2)
    if text[0] == "/":
        return blank(text)
    return _blank_quoted(match, text)


def _blank_quoted(match: re.Match[str], text: str) -> str:
    if text in ('"C"', '"C++"') or _after_include(match):
        return text
    if len(text) == 1:
        return " "
    # Line feeds inside are continuations: the literal is one token, so they go too.
    return text[0] + " " * (len(text) - 2) + text[0]


def _after_include(match: re.Match[str]) -> bool:
    line_start = match.string.rfind("\n", 0, match.start()) + 1
    return match.string[line_start : match.start()].replace(" ", "").startswith("#include")


def matching(code: str, start: int) -> int:
    """Offset after the bracket that closes the one at `start`; -1 if none does. Comments must be gone."""
    pairs = {"(": ")", "[": "]", "{": "}"}
    expected: list[str] = []
    for found in _BRACKET.finditer(code, start):
        bracket = found[0]
        if bracket in pairs:
            expected.append(pairs[bracket])
        elif not expected or expected.pop() != bracket:
            return -1
        if not expected:
            return found.end()
    return -1


_BRACKET = re.compile(r"[()\[\]{}]")


def name_before(code: str, at: int) -> str:
    """The name that ends at offset `at`, or before white space there; "" where none does."""
    end = len(code[max(at - 64, 0) : at].rstrip()) + max(at - 64, 0)
    if end == at - 64:
        end = len(code[:at].rstrip())
    start = end
    while start and (code[start - 1].isalnum() or code[start - 1] == "_"):
        start -= 1
    return code[start:end].lstrip("0123456789")


def defined_in(code: str) -> list[tuple[str, str]]:
    """What looks like definitions of functions: names and parameter lists, in text order."""
    found = ((name_before(code, m.start()), m[1]) for m in _DEFINED.finditer(code))
    return [(name, parameters) for name, parameters in found if name]


#: Without the name, which a search would try at every letter of the text.
_DEFINED = re.compile(r"\(([^(){};]*)\)\s*\{")


def split_arguments(text: str) -> list[str]:
    """`text` split at top-level commas as the preprocessor does; "" gives no arguments.

    Round, square and curly brackets nest; angle brackets do not.
    """
    if not text.strip():
        return []
    parts, depth, start = [], 0, 0
    for found in _COMMA_OR_BRACKET.finditer(text):
        char = found[0]
        if char == "," and depth == 0:
            parts.append(text[start : found.start()])
            start = found.end()
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
    return [*parts, text[start:]]


_COMMA_OR_BRACKET = re.compile(r"[,()\[\]{}]")
