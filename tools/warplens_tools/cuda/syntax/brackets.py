# SPDX-License-Identifier: Apache-2.0
"""Closing what half-typed code left open, so that one broken function does not swallow the next.

tree-sitter recovers well from errors inside balanced brackets and badly from a missing brace. So the
brackets are balanced first, in place: a stray bracket becomes a space, and the braces that are missing
before the next function at file scope are written over the white space in front of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

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
    if not thorough and _is_even(code):
        return code.encode("ascii"), ()
    balanced = Balanced(code)
    return balanced.result()


def balance_again(code: str, before: Balanced | None) -> tuple[bytes, tuple[int, ...], Balanced | None]:
    """As `balance`, and what the next version of the code is to be given: then only what changed is read."""
    if _is_even(code):
        return code.encode("ascii"), (), before
    balanced = Balanced(code, before)
    return *balanced.result(), balanced


def _is_even(code: str) -> bool:
    return all(code.count(a) == code.count(b) for a, b in ("()", "[]", "{}"))


class _State(msgspec.Struct, frozen=True):
    """Where reading stands behind a definition, when nothing but scopes is open."""

    at: int
    statement: int
    open: tuple[tuple[int, str, bool], ...]
    edits: int
    repairs: int


#: A repair reaches this far back: over the words of a function's header, and the white space before them.
_BACK = 320


class Balanced:
    """Masked code with balanced brackets. `repairs` are the offsets at which it was changed.

    With `before`, of a similar code, reading begins behind the last definition that is the same, and ends where it
    stands as it stood there.
    """

    def __init__(self, code: str, before: Balanced | None = None) -> None:
        self.code = code
        self.repairs: list[int] = []
        #: Open brackets: offset, character, whether it is the brace of a scope (namespace, class).
        self.open: list[tuple[int, str, bool]] = []
        self.statement = 0
        #: What was written over the code, where, in this order; and what behind its end.
        self.edits: list[tuple[int, bytes]] = []
        self.tail = b""
        self.states: list[_State] = []
        self.buffer = bytearray(code, "ascii")
        change = _Change(before, self) if before is not None else None
        start = change.begin() if change is not None else 0
        for found in _TOKEN.finditer(code, start):
            at, token = found.start(), found[0]
            self._step(at, token)
            if token == "}" and all(scope for _, _, scope in self.open):
                here = (at + 1, self.statement, tuple(self.open), len(self.edits), len(self.repairs))
                self.states.append(_State(*here))
                if change is not None and change.ends(self.states[-1]):
                    return
        self._close_at_end()

    def result(self) -> tuple[bytes, tuple[int, ...]]:
        """The code, and where it was changed."""
        return bytes(self.buffer) + self.tail, tuple(self.repairs)

    def write(self, at: int, text: bytes) -> None:
        """Write over the code."""
        self.buffer[at : at + len(text)] = text
        self.edits.append((at, text))

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
        self.write(start, b"}" * (before - start))
        if self.buffer[start - 1 : start].isspace():
            self.write(start - 1, b";")
        self.repairs.append(before)

    def _blank(self, at: int) -> None:
        self.write(at, b" ")
        self.repairs.append(at)

    def _close_at_end(self) -> None:
        for offset, char, _ in reversed(self.open):
            if char == "{":
                self.tail += b"}"
                self.repairs.append(offset)
            else:
                self._blank(offset)


class _Change:
    """Between two codes: what of the reading of the `old` one holds for the `new` one."""

    def __init__(self, old: Balanced, new: Balanced) -> None:
        self.old, self.new = old, new
        one, other = old.code, new.code
        self.start = common(min(len(one), len(other)), lambda n: one[:n] == other[:n])
        most = min(len(one), len(other)) - self.start
        same = common(most, lambda n: one[len(one) - n :] == other[len(other) - n :])
        self.end, self.by = len(other) - same, len(other) - len(one)
        self._states = {state.at: state for state in old.states if state.at >= len(one) - same}

    def begin(self) -> int:
        """Take over all up to the last state before the change; returns where that is."""
        old, new = self.old, self.new
        states = [state for state in old.states if state.at <= self.start]
        if not states:
            return 0
        last = states[-1]
        new.states, new.open, new.statement = states, list(last.open), last.statement
        new.repairs = old.repairs[: last.repairs]
        for at, text in old.edits[: last.edits]:
            new.write(at, text)
        return last.at

    def ends(self, now: _State) -> bool:
        """Whether the rest is as it was; then it is taken over."""
        was = self._states.get(now.at - self.by)
        if (
            was is None
            or min(now.at - _BACK, now.statement) < self.end
            or self._moved(was.statement) != now.statement
        ):
            return False
        if tuple((self._moved(at), char, scope) for at, char, scope in was.open) != now.open:
            return False
        old, new = self.old, self.new
        for at, text in old.edits[was.edits :]:
            new.write(self._moved(at), text)
        new.repairs += map(self._moved, old.repairs[was.repairs :])
        new.tail = old.tail
        edits, repairs = now.edits - was.edits, now.repairs - was.repairs
        for state in old.states:
            if state.at > was.at:
                opened = tuple((self._moved(at), char, scope) for at, char, scope in state.open)
                place = self._moved(state.at), self._moved(state.statement), opened
                new.states.append(_State(*place, state.edits + edits, state.repairs + repairs))
        return True

    def _moved(self, at: int) -> int:
        return at if at < self.start else at + self.by


def common(most: int, agree: Callable[[int], bool]) -> int:
    """The largest number up to `most` for which `agree` holds, when it holds for all below."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if agree(middle) else (low, middle - 1)
    return low


def _template_end(head: str) -> int:
    depth = 0
    for index in range(head.index("<"), len(head)):
        depth += {"<": 1, ">": -1}.get(head[index], 0)
        if depth == 0:
            return index + 1
    return 0
