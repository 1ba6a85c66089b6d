# SPDX-License-Identifier: Apache-2.0
"""What the host compiler is given of a unit, as tokens and declarations: `.cudafe1.cpp`, which cudafe++ writes.

cudafe++ writes strings without line feeds, no comments, and device code between `#if 0` and `#endif`; what is left
is host code, the shadows of device variables, and stubs of device functions that end the process.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import count

import msgspec

_ANONYMOUS = re.compile(r"^#define _NV_ANON_NAMESPACE (\w+)", re.MULTILINE)
_CLOSURE = re.compile(r"\b__T\d+\b")
_MARKER = re.compile(r'# \d+(?: "((?:[^"\\]|\\.)*)")?')
_TOKEN = re.compile(
    r"#[^\n]*"
    r'|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"\w*'
    r"|(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+'"
    r"|[A-Za-z_$][\w$]*"
    r"|\.?\d(?:[eEpP][+-]|'?[\w.])*"
    r"|<<=|>>=|\.\.\.|->\*?|::|\+\+|--|&&|\|\||<<|[-+*/%&|^=!<>]=|\S"
)
_OPEN, _CLOSE = "([{", ")]}"
_TYPES = {"struct", "class", "union", "enum"}

#: Names of namespaces, as they are nested, around a declaration.
Scope = tuple[str, ...]


class Declaration(msgspec.Struct, frozen=True):
    """One declaration at namespace scope."""

    scope: Scope
    tokens: tuple[str, ...]
    #: Index of its first token in the unit.
    start: int = 0


class HostTokens(msgspec.Struct, frozen=True):
    """A unit's host side."""

    lines: tuple[str, ...]
    tokens: list[str]
    #: For every line the index of its first token.
    at: list[int]
    #: For every line the file it is from.
    files: tuple[str, ...]
    #: The text that it was read from, and for every line its number there.
    raw: list[str]
    numbers: list[int]


class Replacement(msgspec.Struct, frozen=True):
    """Other tokens in place of those from `start` to before `end`."""

    start: int
    end: int
    tokens: tuple[str, ...]


class _Lines:
    """The lines of a text that the host compiler compiles.

    Names of anonymous namespaces and closures, which hold hashes and numbers, are made the same for all texts.
    """

    def __init__(self, written: str, like: HostTokens | None = None) -> None:
        """What the text begins with as that of `like` does, most of its headers, is taken from there."""
        self.raw = alike(written).split("\n")
        #: How many lines are `like`'s.
        self.known = bisect_left(like.numbers, same_start(self.raw, like.raw)) if like is not None else 0
        self.lines = list(like.lines[: self.known]) if like is not None else []
        self.files = list(like.files[: self.known]) if like is not None else []
        self.numbers = like.numbers[: self.known] if like is not None else []
        self._closures: dict[str, str] = {}
        for number in self.numbers:
            self._alike(self.raw[number])
        self._read()

    def _read(self) -> None:
        start, file = (self.numbers[-1] + 1, self.files[-1]) if self.known else (0, "")
        for number, line, of in _compiled(self.raw, start, file):
            self.lines.append(self._alike(line))
            self.files.append(of)
            self.numbers.append(number)

    def _alike(self, line: str) -> str:
        if "__T" not in line:
            return line
        return _CLOSURE.sub(lambda m: self._closures.setdefault(m[0], f"__T{len(self._closures)}"), line)


def same_start(new: Sequence[str], old: Sequence[str]) -> int:
    """How many lines, or tokens, two texts begin with alike."""
    low, high = 0, min(len(new), len(old))
    while low < high:
        middle = (low + high + 1) // 2
        if new[low:middle] == old[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def alike(written: str) -> str:
    """The text with the name of anonymous namespaces that all texts share."""
    anonymous = _ANONYMOUS.search(written)
    return written if anonymous is None else written.replace(anonymous[1], "_NV_ANON_NAMESPACE")


def _compiled(raw: Sequence[str], start: int = 0, file: str = "") -> Iterator[tuple[int, str, str]]:
    """Of a text's lines those that are compiled: number, line, and its file. From `start` on, where nothing is hidden
    and lines are of `file`."""
    hidden = 0
    for number in range(start, len(raw)):
        line = raw[number]
        if line.startswith("#"):
            marker = _MARKER.match(line)
            if marker is not None:
                file = marker[1] or file
                continue
            hidden, skipped = _nested(line, hidden)
            if skipped:
                continue
        if not hidden and line and not line.isspace():
            yield number, line, file


def replaced(written: str, host: HostTokens, replacements: Sequence[Replacement]) -> str:
    """The text that `host` was read from with other tokens in some places."""
    words: dict[int, str] = {}
    for one in replacements:
        said = " ".join(one.tokens)
        if one.start == one.end:
            words[one.start] = f"{said} {host.tokens[one.start]}"
        else:
            words |= dict.fromkeys(range(one.start, one.end), "") | {one.start: said}
    raw = written.split("\n")
    numbers = [number for number, _, _ in _compiled(raw)]
    for line in {bisect_right(host.at, index) - 1 for index in words}:
        places = count(host.at[line])
        raw[numbers[line]] = _TOKEN.sub(lambda m, p=places: words.get(next(p), m[0]), raw[numbers[line]])  # type: ignore[misc]
    return "\n".join(raw)


def _nested(line: str, hidden: int) -> tuple[int, bool]:
    """How deep within `#if 0` the next line is, and whether this one belongs to it."""
    if hidden:
        return hidden + (line.startswith("#if") - line.startswith("#endif")), True
    return int(line.rstrip() == "#if 0"), line.rstrip() == "#if 0"


def read_host(written: str, like: HostTokens | None = None) -> HostTokens:
    """The host side of a `.cudafe1.cpp`; lines that it shares with `like` are not looked at again."""
    found = _Lines(written, like)
    lines = found.lines
    head = tail = 0
    tokens: list[str] = []
    at: list[int] = []
    if like is not None:
        head, tail = _shared(lines, like.lines, found.known)
        tokens, at = like.tokens[: _first(like, head)], like.at[:head]
    for line in lines[head : len(lines) - tail]:
        at.append(len(tokens))
        tokens += _TOKEN.findall(line)
    if like is not None and tail:
        begin = _first(like, len(like.lines) - tail)
        shift = len(tokens) - begin
        at += [index + shift for index in like.at[len(like.lines) - tail :]]
        tokens += like.tokens[begin:]
    return HostTokens(tuple(lines), tokens, at, tuple(found.files), found.raw, found.numbers)


def _first(host: HostTokens, line: int) -> int:
    return host.at[line] if line < len(host.at) else len(host.tokens)


def _shared(new: Sequence[str], old: Sequence[str], known: int) -> tuple[int, int]:
    """How many lines two texts begin and end with alike; they begin with so many `known` ones."""
    most = min(len(new), len(old))
    head = next((i for i in range(known, most) if new[i] != old[i]), most)
    tail = next((i for i in range(most - head) if new[-1 - i] != old[-1 - i]), most - head)
    return head, tail


def closing(tokens: Sequence[str], start: int) -> int:
    """Index of the bracket that closes the one at `start`; the last index where none does."""
    depth = 0
    for index in range(start, len(tokens)):
        if tokens[index] in _OPEN:
            depth += 1
        elif tokens[index] in _CLOSE:
            depth -= 1
            if not depth:
                return index
    return len(tokens) - 1


def declarations(
    tokens: Sequence[str], start: int = 0, scope: Scope = (), stop: int | None = None
) -> Iterator[Declaration]:
    """The declarations from a token on; those of namespaces one by one."""
    end = len(tokens) if stop is None else stop
    while start < end:
        opened = _namespace(tokens, start)
        if tokens[start] == "}":
            scope, start = scope[:-1], start + 1
        elif opened is not None:
            scope, start = (*scope, opened[0]), opened[1]
        else:
            after = _declaration_end(tokens, start)
            yield Declaration(scope, tuple(tokens[start:after]), start)
            start = after


def _namespace(tokens: Sequence[str], start: int) -> tuple[str, int] | None:
    """The name of a namespace that opens here, with its attributes, and where its contents begin."""
    words = tokens[start : start + 64]
    linkage = words[:1] == ["extern"] and len(words) > 2 and words[1].startswith('"') and words[2] == "{"
    named = words[:1] == ["namespace"] or words[:2] == ["inline", "namespace"]
    if not (linkage or named):
        return None
    brace = next((i for i, word in enumerate(words) if word in ("{", "=", ";")), None)
    if brace is None or words[brace] != "{":
        return None
    return " ".join(words[:brace]), start + brace + 1


def _declaration_end(tokens: Sequence[str], start: int) -> int:
    """After a declaration: after its `;`, or after the body of a function."""
    if tokens[start].startswith("#"):
        return start + 1
    function, value, kind = False, False, _is_type(tokens, start)
    index = after_template(tokens, start)
    while index < len(tokens):
        token = tokens[index]
        if token == ";":
            return index + 1
        if token.startswith("#") or token == "}":
            return max(index, start + 1)
        if token in _OPEN:
            end = closing(tokens, index)
            if token == "{" and function and not value and not kind:
                return end + 1
            # `__attribute__((…))` has brackets and no parameters
            function |= token == "(" and tokens[index - 1] not in ("__attribute__", "__attribute", "alignas")
            index = end
        elif token == "=":
            value = value or tokens[index - 1] != "operator"
        index += 1
    return len(tokens)


def _is_type(tokens: Sequence[str], start: int) -> bool:
    """Whether a class or an enumeration is defined here, as opposed to something that is of its type."""
    index = after_template(tokens, start)
    if index < len(tokens) and tokens[index] == "typedef":
        index += 1
    if index >= len(tokens) or tokens[index] not in _TYPES:
        return False
    while index < len(tokens) and tokens[index] not in ("{", ";", "="):
        if tokens[index] == "(":
            if tokens[index - 1] not in ("__attribute__", "__attribute", "alignas"):
                return False
            index = closing(tokens, index)
        index += 1
    return index < len(tokens) and tokens[index] == "{"


def after_template(tokens: Sequence[str], start: int) -> int:
    """Behind `template< …>`, if it is there."""
    while start + 1 < len(tokens) and tokens[start] == "template" and tokens[start + 1] == "<":
        start = after_angle(tokens, start + 1)
    return start


def after_angle(tokens: Sequence[str], start: int) -> int:
    """Behind the `>` that closes the `<` at `start`; brackets within count as one."""
    depth, index = 0, start
    while index < len(tokens):
        token = tokens[index]
        if token in _OPEN:
            index = closing(tokens, index)
        elif token == "<":
            depth += 1
        elif token in (">", ">>"):
            depth -= len(token)
            if depth <= 0:
                return index + 1
        elif token in (";", "{"):
            break
        index += 1
    return index
