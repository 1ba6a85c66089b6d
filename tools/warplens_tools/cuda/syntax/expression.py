# SPDX-License-Identifier: Apache-2.0
"""The value of an integer expression, where it follows from constants.

A small evaluator over text, not over syntax trees, because it also reads `#if` conditions, macro
bodies and expansions. It follows C: division truncates, and a value that would wrap or overflow the
expression's type is None rather than a guess.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.cuda.syntax.types import Integer, integer_type, type_bytes

Lookup = Callable[[str], "int | None"]
#: Value of a call of that name with these argument texts.
Call = Callable[[str, list[str]], "int | None"]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][\da-fA-F']+|0[bB][01']+|\d[\d']*)(?P<suffix>[uUlLzZ]*)(?![\w.])"
    r"|(?P<name>(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)"
    r"|(?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>=!~&|^?:(),]))"
)
_BINARY = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_MAX_TOKENS = 512


class _NotConstantError(Exception):
    """The expression has no value that follows from constants."""


def evaluate(text: str, lookup: Lookup, call: Call | None = None) -> int | None:
    """The integer that `text` denotes, or None.

    `lookup` gives the value of a name, `call` that of a function or macro call. Integer casts,
    `sizeof` of built-in types, `std::min`/`std::max` and every integer operator of C are understood.
    """
    try:
        parser = _Evaluator(_tokens(text), lookup, call, text)
        value = parser.ternary()
        return value if parser.at == len(parser.tokens) else None
    except (_NotConstantError, RecursionError):
        return None


class _Token(NamedTuple):
    kind: Literal["number", "name", "operator"]
    text: str
    start: int
    end: int
    #: Of a number: "ull".
    suffix: str


class _Tokens(NamedTuple):
    tokens: tuple[_Token, ...]
    #: What the usual conversions make of the whole: as wide as its widest part, unsigned as any of them.
    wide: bool
    signed: bool


@functools.lru_cache(maxsize=1024)
def _tokens(text: str) -> _Tokens:
    """The tokens of an expression, most of which are read again after every edit."""
    tokens: list[_Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if not found or len(tokens) > _MAX_TOKENS:
            raise _NotConstantError
        kind: Literal["number", "name", "operator"] = (
            "number" if found["number"] else "name" if found["name"] else "operator"
        )
        suffix = (found["suffix"] or "").lower()
        tokens.append(_Token(kind, found[kind], found.start(kind), found.end(), suffix))
        at = found.end()
    types = [known for token in tokens if token.kind == "name" and (known := integer_type(token.text))]
    suffixes = "".join(token.suffix for token in tokens)
    sized = any(token.text == "sizeof" for token in tokens)
    wide = sized or bool({"l", "z"} & set(suffixes)) or any(known.bytes == 8 for known in types)
    unsigned = sized or bool({"u", "z"} & set(suffixes)) or not all(known.signed for known in types)
    return _Tokens(tuple(tokens), wide, not unsigned)


class _Evaluator:
    """Precedence climbing over tokens. Both arms of `?:`, `&&` and `||` are read, one is used."""

    def __init__(self, tokens: _Tokens, lookup: Lookup, call: Call | None, text: str) -> None:
        self.tokens, self.lookup, self.call, self.text = tokens.tokens, lookup, call, text
        self.at = 0
        self.low = 0 if not tokens.signed else -(2**63) if tokens.wide else -(2**31)
        self.high = 2**63 - 1 if tokens.wide else 2**31 - 1

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        if self.at >= len(self.tokens) or (expected and self.tokens[self.at].text != expected):
            raise _NotConstantError
        self.at += 1
        return self.tokens[self.at - 1].text

    def known(self, value: int | None) -> int:
        if value is None or not self.low <= value <= self.high:
            raise _NotConstantError
        return value

    def ternary(self) -> int | None:
        condition = self.binary(1)
        if self.peek() != "?":
            return condition
        self.take("?")
        yes = self.ternary()
        self.take(":")
        no = self.ternary()
        if condition is None:
            return yes if yes == no else None
        return yes if condition else no

    def binary(self, least: int) -> int | None:
        left = self.unary()
        while (power := _BINARY.get(self.peek(), 0)) >= least:
            left = self.combine(self.take(), left, self.binary(power + 1))
        return left

    def combine(self, name: str, left: int | None, right: int | None) -> int | None:
        if name == "&&" and (left == 0 or right == 0):
            return 0
        if name == "||" and (left or right):
            return 1
        if left is None or right is None:
            return None
        value = apply(name, left, right)
        return value if value is not None and self.low <= value <= self.high else None

    def unary(self) -> int | None:
        token = self.peek()
        if token in ("-", "+", "~", "!"):
            self.take()
            value = self.unary()
            if value is None:
                return None
            value = {"-": -value, "+": value, "~": ~value, "!": int(not value)}[token]
            return value if self.low <= value <= self.high else None
        return self.primary()

    def primary(self) -> int | None:
        if self.at >= len(self.tokens):
            raise _NotConstantError
        token = self.tokens[self.at]
        if token.kind == "number":
            return self.number()
        if token.text == "(":
            return self.parenthesised()
        if token.kind == "name":
            return self.name()
        raise _NotConstantError

    def number(self) -> int | None:
        digits = self.take().replace("'", "")
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        try:
            return self.known(int(digits, 8 if octal else 0))
        except ValueError:
            return None

    def parenthesised(self) -> int | None:
        self.take("(")
        words = self.words()
        written = integer_type(" ".join(words))
        if written is not None:
            self.at += len(words)
            self.take(")")
            return _converted(self.unary(), written)
        value = self.ternary()
        self.take(")")
        return value

    def words(self) -> list[str]:
        """The names up to the next parenthesis that closes; none where anything else stands before it."""
        words: list[str] = []
        for token in self.tokens[self.at :]:
            if token.kind != "name":
                return words if token.text == ")" else []
            words.append(token.text)
        return []

    def name(self) -> int | None:
        name = self.take()
        if name in ("true", "false"):
            return int(name == "true")
        if name == "sizeof":
            return self.size(" ".join(self.group().split()))
        if name == "static_cast":
            return self.static_cast()
        if self.peek() != "(":
            return self.lookup(name)
        arguments = self.group()
        return self.called(name, arguments)

    def size(self, name: str) -> int | None:
        """Of a built-in, or of a struct of the file, which is looked up as `sizeof Name`."""
        known = type_bytes(name)
        return self.lookup(f"sizeof {name}") if known is None and name.isidentifier() else known

    def static_cast(self) -> int | None:
        self.take("<")
        words = []
        while self.peek() != ">":
            words.append(self.take())
        self.take(">")
        value, written = self.inner(self.group()), integer_type(" ".join(words))
        return _converted(value, written) if written is not None else None

    def inner(self, text: str) -> int | None:
        return evaluate(text, self.lookup, self.call)

    def called(self, name: str, arguments: str) -> int | None:
        written = integer_type(name)
        if written is not None:
            return _converted(self.inner(arguments), written)
        parts = split_arguments(arguments)
        if name.removeprefix("std::") in ("min", "max") and len(parts) == 2:
            a, b = (self.inner(part) for part in parts)
            return apply(name[-3:], a, b) if a is not None and b is not None else None
        return self.call(name, parts) if self.call else None

    def group(self) -> str:
        """The text between the parentheses that follow, which it passes."""
        self.take("(")
        start, depth = self.tokens[self.at - 1].end, 1
        while depth:
            token = self.take()
            depth += (token == "(") - (token == ")")
        return self.text[start : self.tokens[self.at - 1].start]


def _converted(value: int | None, to: Integer) -> int | None:
    """A value that its new type holds; None for one that would wrap."""
    return value if value is not None and to.holds(value) else None


def apply(name: str, a: int, b: int) -> int | None:
    """a op b on integers as C computes it, before any wrapping; None where C does not define it."""
    if name in ("/", "%"):
        if b == 0:
            return None
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if name == "/" else a - quotient * b
    if name in ("<<", ">>"):
        if not 0 <= b < 64 or (a < 0 and name == "<<"):
            return None
        return a << b if name == "<<" else a >> b
    return _SIMPLE[name](a, b)


_SIMPLE: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "min": min,
    "max": max,
}
