"""The value of an integer expression, where it follows from constants.

A small evaluator over text, not over syntax trees, because it also reads `#if` conditions, macro
bodies and expansions. It follows C: division truncates, and a value that would wrap or overflow the
expression's type is None rather than a guess.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from warplens_tools.cuda.syntax.lexical import split_arguments

Lookup = Callable[[str], "int | None"]
#: Value of a call of that name with these argument texts.
Call = Callable[[str, list[str]], "int | None"]

#: Bytes per element of the types whose size CUDA fixes on every 64-bit host.
TYPE_BYTES: dict[str, int] = {
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "int8_t": 1, "uint8_t": 1, "uchar": 1,
    "short": 2, "unsigned short": 2, "int16_t": 2, "uint16_t": 2, "half": 2, "__half": 2,
    "__nv_bfloat16": 2, "nv_bfloat16": 2, "ushort": 2, "char2": 2, "uchar2": 2,
    "__nv_fp8_e4m3": 1, "__nv_fp8_e5m2": 1,
    "int": 4, "unsigned int": 4, "unsigned": 4, "signed": 4, "uint": 4, "int32_t": 4, "uint32_t": 4,
    "float": 4, "half2": 4, "__half2": 4, "__nv_bfloat162": 4, "short2": 4, "ushort2": 4,
    "char4": 4, "uchar4": 4,
    "double": 8, "long long": 8, "unsigned long long": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8,
    "std::size_t": 8, "ptrdiff_t": 8, "float2": 8, "int2": 8, "uint2": 8, "short4": 8, "ushort4": 8,
    "float3": 12, "int3": 12, "uint3": 12,
    "float4": 16, "int4": 16, "uint4": 16, "double2": 16, "longlong2": 16, "ulonglong2": 16,
}  # fmt: skip

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][\da-fA-F']+|0[bB][01']+|\d[\d']*)(?P<suffix>[uUlLzZ]*)(?![\w.])"
    r"|(?P<name>(?:::)?[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)"
    r"|(?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>=!~&|^?:(),]))"
)
_BINARY = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_INTEGER_WORDS = frozenset({
    "int", "unsigned", "signed", "long", "short", "char", "const", "constexpr", "size_t", "uint",
    "uint32_t", "int32_t", "uint64_t", "int64_t", "ptrdiff_t", "std::size_t", "std::uint32_t",
    "std::int64_t", "int16_t", "uint16_t", "uint8_t", "int8_t",
})  # fmt: skip
_WIDE = re.compile(r"\blong\b|64_t|size_t|ptrdiff_t|sizeof|\d[uU]?[lLzZ]")
_UNSIGNED = re.compile(r"\bu(?:nsigned|int)|size_t|sizeof|\d[lL]*[uUzZ]")
_MAX_TOKENS = 512


class _NotConstantError(Exception):
    """The expression has no value that follows from constants."""


def evaluate(text: str, lookup: Lookup, call: Call | None = None) -> int | None:
    """The integer that `text` denotes, or None.

    `lookup` gives the value of a name, `call` that of a function or macro call. Integer casts,
    `sizeof` of built-in types, `std::min`/`std::max` and every integer operator of C are understood.
    """
    try:
        tokens = _tokens(text)
        parser = _Evaluator(tokens, lookup, call, text)
        value = parser.ternary()
        return value if parser.at == len(tokens) else None
    except (_NotConstantError, RecursionError):
        return None


@functools.lru_cache(maxsize=1024)
def _tokens(text: str) -> Sequence[tuple[str, str, int, int]]:
    """The tokens of an expression, most of which are read again after every edit."""
    tokens: list[tuple[str, str, int, int]] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if not found or len(tokens) > _MAX_TOKENS:
            raise _NotConstantError
        kind = "number" if found["number"] else "name" if found["name"] else "operator"
        tokens.append((kind, found[kind], found.start(kind), found.end()))
        at = found.end()
    return tokens


class _Evaluator:
    """Precedence climbing over tokens. Both arms of `?:`, `&&` and `||` are read, one is used."""

    def __init__(
        self, tokens: Sequence[tuple[str, str, int, int]], lookup: Lookup, call: Call | None, text: str
    ) -> None:
        self.tokens, self.lookup, self.call, self.text = tokens, lookup, call, text
        self.at = 0
        wide, unsigned = bool(_WIDE.search(text)), bool(_UNSIGNED.search(text))
        self.low = 0 if unsigned else -(2**63) if wide else -(2**31)
        self.high = 2**63 - 1 if wide else 2**31 - 1

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        if self.at >= len(self.tokens) or (expected and self.tokens[self.at][1] != expected):
            raise _NotConstantError
        self.at += 1
        return self.tokens[self.at - 1][1]

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
            operator = self.take()
            left = self.combine(operator, left, self.binary(power + 1))
        return left

    def combine(self, operator: str, left: int | None, right: int | None) -> int | None:
        if operator == "&&" and (left == 0 or right == 0):
            return 0
        if operator == "||" and (left or right):
            return 1
        if left is None or right is None:
            return None
        value = _apply(operator, left, right)
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
        kind, token, _, _ = self.tokens[self.at]
        if kind == "number":
            return self.number()
        if token == "(":
            return self.parenthesised()
        if kind == "name":
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
        if self._is_type():
            while self.peek() != ")":
                self.take()
            self.take(")")
            return self.unary()
        value = self.ternary()
        self.take(")")
        return value

    def _is_type(self) -> bool:
        words: list[str] = []
        for kind, token, _, _ in self.tokens[self.at :]:
            if kind != "name":
                return token == ")" and bool(words) and all(w in _INTEGER_WORDS for w in words)
            words.append(token)
        return False

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
        known = TYPE_BYTES.get(name)
        return self.lookup(f"sizeof {name}") if known is None and name.isidentifier() else known

    def static_cast(self) -> int | None:
        self.take("<")
        words = []
        while self.peek() != ">":
            words.append(self.take())
        self.take(">")
        inner = self.group()
        return self.inner(inner) if words and all(w in _INTEGER_WORDS for w in words) else None

    def inner(self, text: str) -> int | None:
        return evaluate(text, self.lookup, self.call)

    def called(self, name: str, arguments: str) -> int | None:
        if name in _INTEGER_WORDS:
            return self.inner(arguments)
        parts = split_arguments(arguments)
        if name.removeprefix("std::") in ("min", "max") and len(parts) == 2:
            values = [self.inner(part) for part in parts]
            if values[0] is None or values[1] is None:
                return None
            return (min if name.endswith("min") else max)(values[0], values[1])
        return self.call(name, parts) if self.call else None

    def group(self) -> str:
        """The text between the parentheses that follow, which it passes."""
        self.take("(")
        start, depth = self.tokens[self.at - 1][3], 1
        while depth:
            token = self.take()
            depth += (token == "(") - (token == ")")
        return self.text[start : self.tokens[self.at - 1][2]]


def _apply(operator: str, a: int, b: int) -> int | None:
    if operator in ("/", "%"):
        if b == 0:
            return None
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if operator == "/" else a - quotient * b
    if operator in ("<<", ">>"):
        if not 0 <= b < 64 or a < 0:
            return None
        return a << b if operator == "<<" else a >> b
    return _SIMPLE[operator](a, b)


_SIMPLE: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
