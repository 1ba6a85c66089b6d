# SPDX-License-Identifier: Apache-2.0
"""The value of an integer expression, where it follows from constants.

A small evaluator over text, not over syntax trees, because it also reads `#if` conditions, macro
bodies and expansions. It follows C: division truncates, and a value that would wrap or overflow the
expression's type is None rather than a guess. Floating values, from which launches are computed as
`ceil(n / 256.0)`, are fractions; where rounding could tell, the value is None.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.cuda.syntax.types import integer_type, type_bytes

Lookup = Callable[[str], "int | None"]
#: Value of a call of that name with these argument texts.
Call = Callable[[str, list[str]], "int | None"]

#: A value of the expression: floating ones are fractions.
_Value = int | Fraction

_TOKEN = re.compile(
    r"\s*(?:(?P<real>(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?)[fFlL]?(?![\w.])"
    r"|(?P<number>0[xX][\da-fA-F']+|0[bB][01']+|\d[\d']*)(?P<suffix>[uUlLzZ]*)(?![\w.])"
    r"|(?P<name>(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*(?:\.[xyz]\b)?)"
    r"|(?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>=!~&|^?:(),]))"
)
_BINARY = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_MAX_TOKENS = 512


class _NotConstantError(Exception):
    """The expression has no value that follows from constants."""


def evaluate(text: str, lookup: Lookup, call: Call | None = None, *, real: bool = False) -> int | None:
    """The integer that `text` denotes, or None; with `real`, a floating value counts as what converting it leaves.

    `lookup` gives the value of a name and of an extent (`block.x`), `call` that of a function or macro call. Casts,
    `sizeof` of built-in types, `std::min`/`std::max`, `ceil`/`floor` and every integer operator of C are understood.
    """
    value = _evaluated(text, lookup, call)
    return value if isinstance(value, int) else math.trunc(value) if real and value is not None else None


def _evaluated(text: str, lookup: Lookup, call: Call | None) -> _Value | None:
    try:
        parser = _Evaluator(_tokens(text), lookup, call, text)
        value = parser.ternary()
        return value if parser.at == len(parser.tokens) else None
    except (_NotConstantError, RecursionError):
        return None


class _Token(NamedTuple):
    kind: Literal["real", "number", "name", "operator"]
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
        kind: Literal["real", "number", "name", "operator"] = (
            "real"
            if found["real"]
            else "number"
            if found["number"]
            else "name"
            if found["name"]
            else "operator"
        )
        suffix = (found["suffix"] or "").lower()
        tokens.append(_Token(kind, found[kind], found.start(kind), found.end(), suffix))
        at = found.end()
    types = [known for token in tokens if token.kind == "name" and (known := integer_type(token.text))]
    suffixes = "".join(token.suffix for token in tokens)
    sized = any(token.text == "sizeof" for token in tokens)
    wide = sized or bool({"l", "z"} & set(suffixes)) or any(known.bytes == 8 for known in types)
    # an extent of a `dim3` is an unsigned int
    extent = any(token.kind == "name" and "." in token.text for token in tokens)
    unsigned = sized or extent or bool({"u", "z"} & set(suffixes)) or not all(known.signed for known in types)
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

    def known(self, value: _Value | None) -> _Value:
        if value is None or not self.low <= value <= self.high:
            raise _NotConstantError
        return value

    def ternary(self) -> _Value | None:
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

    def binary(self, least: int) -> _Value | None:
        left = self.unary()
        while (power := _BINARY.get(self.peek(), 0)) >= least:
            left = self.combine(self.take(), left, self.binary(power + 1))
        return left

    def combine(self, name: str, left: _Value | None, right: _Value | None) -> _Value | None:
        if name == "&&" and (left == 0 or right == 0):
            return 0
        if name == "||" and (left or right):
            return 1
        if left is None or right is None:
            return None
        value = applied(name, left, right)
        return value if value is not None and self.low <= value <= self.high else None

    def unary(self) -> _Value | None:
        token = self.peek()
        if token in ("-", "+", "~", "!"):
            self.take()
            value = self.unary()
            if value is None:
                return None
            if isinstance(value, Fraction) and token == "~":
                return None
            value = _UNARY[token](value)
            return value if self.low <= value <= self.high else None
        return self.primary()

    def primary(self) -> _Value | None:
        if self.at >= len(self.tokens):
            raise _NotConstantError
        token = self.tokens[self.at]
        if token.kind == "number":
            return self.number()
        if token.kind == "real":
            return Fraction(self.take())
        if token.text == "(":
            return self.parenthesised()
        if token.kind == "name":
            return self.name()
        raise _NotConstantError

    def number(self) -> _Value | None:
        digits = self.take().replace("'", "")
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        try:
            return self.known(int(digits, 8 if octal else 0))
        except ValueError:
            return None

    def parenthesised(self) -> _Value | None:
        self.take("(")
        words = self.words()
        if _is_type(" ".join(words)):
            self.at += len(words)
            self.take(")")
            return _converted(self.unary(), " ".join(words))
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

    def name(self) -> _Value | None:
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

    def static_cast(self) -> _Value | None:
        self.take("<")
        words = []
        while self.peek() != ">":
            words.append(self.take())
        self.take(">")
        value, written = self.inner(self.group()), " ".join(words)
        return _converted(value, written) if _is_type(written) else None

    def inner(self, text: str) -> _Value | None:
        return _evaluated(text, self.lookup, self.call)

    def called(self, name: str, arguments: str) -> _Value | None:
        if _is_type(name):
            return _converted(self.inner(arguments), name)
        parts = split_arguments(arguments)
        if name.removeprefix("std::") in _ROUNDED and len(parts) == 1:
            return _rounded(self.inner(arguments), _ROUNDED[name.removeprefix("std::")])
        if name.removeprefix("std::") in ("min", "max") and len(parts) == 2:
            a, b = (self.inner(part) for part in parts)
            return applied(name[-3:], a, b) if a is not None and b is not None else None
        return self.call(name, parts) if self.call else None

    def group(self) -> str:
        """The text between the parentheses that follow, which it passes."""
        self.take("(")
        start, depth = self.tokens[self.at - 1].end, 1
        while depth:
            token = self.take()
            depth += (token == "(") - (token == ")")
        return self.text[start : self.tokens[self.at - 1].start]


_REAL = frozenset({"float", "double"})
_ROUNDED: dict[str, Callable[[Any], int]] = {
    "ceil": math.ceil, "ceilf": math.ceil, "floor": math.floor, "floorf": math.floor
}  # fmt: skip


def _is_type(written: str) -> bool:
    return written in _REAL or integer_type(written) is not None


def _converted(value: _Value | None, written: str) -> _Value | None:
    """A value as another type holds it; None for one that would wrap."""
    if value is None or written in _REAL:
        return None if value is None else Fraction(value)
    to, whole = integer_type(written), math.trunc(value)
    return whole if to is not None and to.holds(whole) else None


def _rounded(value: _Value | None, how: Callable[[Any], int]) -> Fraction | None:
    """`ceil` or `floor`, a floating value; None where what a `float` makes of its argument would tell."""
    if value is None or not -(2**63) < value < 2**63:
        return None
    exact = how(Fraction(value))
    (near,) = struct.unpack("f", struct.pack("f", float(value)))
    return Fraction(exact) if how(near) == exact else None


def apply(name: str, a: int, b: int) -> int | None:
    """a op b on integers as C computes it, before any wrapping; None where C does not define it."""
    found = applied(name, a, b)
    return found if isinstance(found, int) else None


def applied(name: str, a: _Value, b: _Value) -> _Value | None:
    """As `apply`, of floating values too."""
    if isinstance(a, Fraction) or isinstance(b, Fraction):
        if name == "/":
            return Fraction(a) / Fraction(b) if b else None
        found: _Value | None = _SIMPLE[name](a, b) if name in _OF_REALS else None
        return found
    if name in ("/", "%"):
        if b == 0:
            return None
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if name == "/" else a - quotient * b
    if name in ("<<", ">>"):
        if not 0 <= b < 64 or (a < 0 and name == "<<"):
            return None
        return a << b if name == "<<" else a >> b
    whole: int = _SIMPLE[name](a, b)
    return whole


_UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "!": lambda value: int(not value),
}
_OF_REALS = frozenset({"+", "-", "*", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "min", "max"})
_SIMPLE: dict[str, Callable[[Any, Any], Any]] = {
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
