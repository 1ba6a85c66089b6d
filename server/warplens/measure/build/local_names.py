# SPDX-License-Identifier: Apache-2.0
"""Names that mean a local variable wherever a function of the host says them, whatever is declared outside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NAME = re.compile(r"[A-Za-z_]\w*")
#: What a statement begins with that declares no variable.
_NO_TYPES = frozenset(
    {
        *("return", "goto", "delete", "throw", "case", "default", "else", "do"),
        *("if", "for", "while", "switch", "try", "catch", "new", "sizeof"),
        *("break", "continue", "typedef", "using", "namespace", "extern", "template", "struct"),
        *("class", "union", "enum", "friend", "operator", "public", "private", "protected"),
        *("this", "co_return", "co_await", "co_yield", "static_assert", "asm", "__asm__"),
    }
)
_WITHIN_A_TYPE = frozenset(("::", "*", "&", "<", ">", ">>", ","))


def only_local(tokens: Sequence[str], name: str) -> bool:
    """Whether a function's tokens say `name` first where they declare it in a block, and later only within that block.

    What is not surely so is not: parameters, loops' own variables, and names behind `::` are not looked at.
    """
    first = next((index for index, word in enumerate(tokens) if word == name and _bare(tokens, index)), -1)
    if first < 0 or not _declares(tokens, first):
        return False
    depth = 0
    for index, word in enumerate(tokens):
        if word == name and tokens[index - 1] in ("::", "struct", "class", "union", "enum", "typename"):
            return False
        if index <= first:
            continue
        depth += (word == "{") - (word == "}")
        if depth < 0:
            return not any(tokens[i] == name and _bare(tokens, i) for i in range(index, len(tokens)))
    return True


def _bare(tokens: Sequence[str], index: int) -> bool:
    return not index or tokens[index - 1] not in (".", "->")


def _declares(tokens: Sequence[str], at: int) -> bool:
    """Whether the name at `at` is a variable of the statement that it stands in, which stands in a block."""
    start = _statement(tokens, at)
    if start < 0 or at - start < 1 or tokens[at + 1] not in ("=", ";", ",", "{", "[", "("):
        return False
    first, before = tokens[start], tokens[at - 1]
    if not _NAME.fullmatch(first) or first in _NO_TYPES:
        return False
    if before not in ("*", "&", ">", ",") and not _NAME.fullmatch(before):
        return False
    # up to the first variable's name there is nothing but a type
    end = next((i for i in range(start, at) if tokens[i] in ("=", "(", "[", "{")), at)
    words = tokens[start:end]
    named = all(_NAME.fullmatch(word) or word in _WITHIN_A_TYPE or word[0].isdigit() for word in words)
    # `a * b, c = 1;` and `f, c = 1;` are no declarations that anybody writes; `x = 1, c = 2;` has one word
    return named and not _NO_TYPES & set(words) and (end == at or len(words) > 1)


def _statement(tokens: Sequence[str], at: int) -> int:
    """Where the statement begins; -1 where `at` stands in brackets or outside every block."""
    index, depth = at - 1, 0
    while index >= 0:
        word = tokens[index]
        if word in (")", "]"):
            depth += 1
        elif word in ("(", "["):
            depth -= 1
            if depth < 0:
                return -1
        elif depth == 0 and word in (";", "{", "}"):
            return index + 1
        index -= 1
    return -1
