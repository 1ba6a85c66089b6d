# SPDX-License-Identifier: Apache-2.0
"""Closing what half-typed code left open, so that one broken function does not swallow the next.

tree-sitter recovers well from errors inside balanced brackets and badly from a missing brace. So the
brackets are balanced first, in place: a stray bracket becomes a space, and the braces that are missing
before the next function at file scope are written over the white space in front of it.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"[(){}\[\];]|\b__global__\b|^(?:__device__|__host__|template\s*<|namespace\b|int\s+main\b)", re.M
)
_SCOPE = re.compile(
    r"\s*(?:(?:inline|typedef|static|export)\s+)*"
    r"(?:namespace\b|(?:class|struct|union|enum)\b(?!.*(?:\)|const|noexcept)\s*$)[^=]*$|extern\s*\"C(?:\+\+)?\"\s*$)",
    re.DOTALL,
)
_TEMPLATE_HEAD = re.compile(r"^\s*template\s*<")
_HEADER_WORDS = re.compile(
    r"(?:(?:\btemplate\s*<[^;{}()]*>|\bextern\s*\"C\"|\bextern|\"C\"|\bstatic|\binline|\bvoid|__forceinline__"
    r"|\[\[\w+\]\]|__launch_bounds__\s*\([^()]*\))\s*)*\Z"
)


def balance(code: str, *, thorough: bool = False) -> tuple[bytes, tuple[int, ...]]:
    """`code` with balanced brackets, and the offsets at which it had to be changed.

    Code with as many closing as opening brackets is taken for balanced, unless `thorough`.

    Braces still open at the end are closed after it, so the result may be longer than `code`.
    """
    if not thorough and all(code.count(a) == code.count(b) for a, b in ("()", "[]", "{}")):
        return code.encode("ascii"), ()
    balanced = _Balanced(code)
    return bytes(balanced.buffer), tuple(balanced.repairs)


class _Balanced:
    """Masked code with balanced brackets. `repairs` are the offsets at which it was changed."""

    def __init__(self, code: str) -> None:
        self.buffer = bytearray(code, "ascii")
        self.code = code
        self.repairs: list[int] = []
        #: Open brackets: offset, character, whether it is the brace of a scope (namespace, class).
        self.open: list[tuple[int, str, bool]] = []
        self.statement = 0
        for found in _TOKEN.finditer(code):
            self._step(found.start(), found[0])
        self._close_at_end()

    def _step(self, at: int, token: str) -> None:
        if token in "([{":
            scope = token == "{" and self._opens_scope(at)
            self.open.append((at, token, scope))
            if token == "{":
                self.statement = at + 1
        elif token in ")]":
            self._close_round(at, "(" if token == ")" else "[")
        elif token == "}":
            self._close_brace(at)
        elif token == ";":
            self.statement = at + 1
        else:
            self._function_begins(at)

    def _opens_scope(self, at: int) -> bool:
        if self.open and not (self.open[-1][1] == "{" and self.open[-1][2]):
            return False
        head = self.code[self.statement : at]
        if _TEMPLATE_HEAD.match(head):
            head = head[_template_end(head) :]
        return bool(_SCOPE.match(head))

    def _close_round(self, at: int, opener: str) -> None:
        if self.open and self.open[-1][1] == opener:
            self.open.pop()
        else:
            self._blank(at)

    def _close_brace(self, at: int) -> None:
        depth = len(self.open)
        while depth and self.open[depth - 1][1] != "{":
            depth -= 1
        self.statement = at + 1
        if not depth:
            self._blank(at)
            return
        for opened in self.open[depth:]:
            self._blank(opened[0])
        del self.open[depth - 1 :]

    def _function_begins(self, at: int) -> None:
        """A function of file or class scope starts here: whatever body is still open was not closed."""
        inside = next((i for i, (_, _, scope) in enumerate(self.open) if not scope), None)
        if inside is None:
            return
        head = _HEADER_WORDS.search(self.code, max(0, at - 300), at)
        self._insert(head.start() if head else at, self.open[inside:])
        del self.open[inside:]
        self.statement = at

    def _insert(self, before: int, opened: list[tuple[int, str, bool]]) -> None:
        braces = 0
        for offset, char, _ in opened:
            if char == "{":
                braces += 1
            else:
                self._blank(offset)
        start = max(before - braces, 0)
        self.buffer[start:before] = b"}" * (before - start)
        if self.buffer[start - 1 : start].isspace():
            self.buffer[start - 1 : start] = b";"
        self.repairs.append(before)

    def _blank(self, at: int) -> None:
        self.buffer[at : at + 1] = b" "
        self.repairs.append(at)

    def _close_at_end(self) -> None:
        for offset, char, _ in reversed(self.open):
            if char == "{":
                self.buffer += b"}"
                self.repairs.append(offset)
            else:
                self._blank(offset)


def _template_end(head: str) -> int:
    depth = 0
    for index in range(head.index("<"), len(head)):
        depth += {"<": 1, ">": -1}.get(head[index], 0)
        if depth == 0:
            return index + 1
    return 0
