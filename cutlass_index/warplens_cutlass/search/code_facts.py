# SPDX-License-Identifier: Apache-2.0
"""What a piece of code says of itself: PTX operations, names it calls, functions and comments. Plain scans, no tree."""

from __future__ import annotations

import re

import msgspec

from warplens_cutlass.extract.body import ptx_of_text
from warplens_cutlass.words import split

#: Intrinsics, names of other namespaces: what code takes from elsewhere rather than names itself.
_TAKEN = re.compile(r"\b(__\w{4,}|[A-Za-z]\w*(?:::[A-Za-z]\w*)+)\s*[<(]")
_FUNCTION = re.compile(r"(?:__global__|__device__)[^;{(]*?\b(\w+)\s*\(")
_COMMENT = re.compile(r"//([^\n]*)|/\*(.*?)\*/", re.S)
_BARE_PTX = re.compile(r"^\s*[a-z]+\.[a-z0-9_.:]+\s+[%\[{]", re.M)
_NOT_CALLED = frozenset(("__launch_bounds__", "__align__", "__attribute__", "__restrict__"))
_WORDS = 40


class CodeFacts(msgspec.Struct, frozen=True):
    """What was found in a piece of code."""

    #: PTX operations with their qualifiers, in order.
    ptx: tuple[str, ...]
    #: Intrinsics and qualified names that it calls, and roots of PTX operations: (name, 1-based line of the first).
    taken: tuple[tuple[str, int], ...]
    #: What it says of itself: names of its functions, words of its comments, what it calls.
    prose: str


def look_at(code: str) -> CodeFacts:
    """Look at a kernel, a selection or loose lines; the text need not compile."""
    plain = _COMMENT.sub(lambda m: "\n" * m[0].count("\n"), code)
    taken: dict[str, int] = {}
    for match in _TAKEN.finditer(plain):
        if match[1] not in _NOT_CALLED:
            taken.setdefault(match[1], _line(plain, match.start(1)))
    ptx = tuple(dict.fromkeys(ptx_of_text(_assembly(code))))
    for operation in ptx:
        taken.setdefault(operation, _line(code, code.find(operation.split(".", 1)[0])))
    functions = [" ".join(split(name)) for name in _FUNCTION.findall(plain)[:4]]
    comments = [a or b for a, b in _COMMENT.findall(code)[:6]]
    words = " ".join([*functions, *comments]).split()[:_WORDS]
    return CodeFacts(ptx, tuple(taken.items()), " ".join(words))


def _assembly(code: str) -> str:
    """The text inside `asm` statements; all of it where there is none (bare PTX)."""
    if "asm" not in code:
        return code if _BARE_PTX.search(code) else ""
    return " ".join(re.findall(r'"((?:[^"\\]|\\.)*)"', code[code.index("asm") :]))


def _line(code: str, at: int) -> int:
    return code.count("\n", 0, max(at, 0)) + 1
