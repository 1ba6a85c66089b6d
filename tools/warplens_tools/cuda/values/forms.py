# SPDX-License-Identifier: Apache-2.0
"""Integer expressions of a kernel as polynomials over what varies: threads, blocks, loops, parameters.

`32 * threadIdx.y + threadIdx.x + n * k` is three terms. What is no polynomial (`threadIdx.x % 32`) is
a symbol of its own that remembers how it is made, so that a form can always be evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from warplens_tools.cuda.syntax.expression import apply
from warplens_tools.cuda.syntax.types import integer_type

Kind = Literal["thread", "block", "block size", "grid size", "parameter", "loop", "derived"]

_MAX_TERMS = 64
_MAX_DEGREE = 6
_MAX_DEPTH = 24


class Symbol(msgspec.Struct, frozen=True):
    """One thing that varies.

    "thread" and "block" are `threadIdx` and `blockIdx`; "loop" is the number of the iteration that a
    loop is in, counted from 0, or a loop variable whose steps are no constant stride; "derived" is an
    operation on other forms. A "parameter" is the same for all threads of a launch.
    """

    name: str
    kind: Kind
    operation: str = ""
    operands: tuple[Form, ...] = ()

    @property
    def opaque(self) -> bool:
        """Whether no form tells its value: it is loaded, unknown, or wraps."""
        return self.operation in (LOADED, UNKNOWN) or self.operation.startswith(NARROWED)

    def mentions(self, name: str) -> bool:
        """Whether the value can change with symbol `name`."""
        return self.name == name or any(operand.mentions(name) for operand in self.operands)


#: Operations of symbols that stand for what no form tells: an element of an array, a narrow integer's value
#: ("as unsigned char"), anything else.
LOADED, NARROWED, UNKNOWN = "loaded", "as ", "unknown"

Monomial = tuple[Symbol, ...]


class Form(msgspec.Struct, frozen=True):
    """A sum of integer multiples of products of symbols. Two equal forms have equal terms."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @property
    def constant(self) -> int:
        """The term without symbols."""
        return next((factor for symbols, factor in self.terms if not symbols), 0)

    @property
    def value(self) -> int | None:
        """The integer that this is; None where a symbol is left."""
        return self.constant if all(not symbols for symbols, _ in self.terms) else None

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Every symbol in the form, derived ones with those they are made of."""
        found: dict[Symbol, None] = {}
        stack = [s for symbols, _ in self.terms for s in symbols]
        while stack:
            symbol = stack.pop(0)
            if symbol not in found:
                found[symbol] = None
                stack += [s for o in symbol.operands for symbols, _ in o.terms for s in symbols]
        return tuple(found)

    def mentions(self, name: str) -> bool:
        """Whether the value can change with the symbol of that name."""
        return any(symbol.mentions(name) for symbols, _ in self.terms for symbol in symbols)

    @property
    def told(self) -> Form | None:
        """The form itself, where nothing opaque is in it."""
        return None if any(symbol.opaque for symbol in self.symbols) else self

    @property
    def told_by_lanes(self) -> Form | None:
        """The form, in which what all threads of a block load from one place counts as a parameter; None where anything
        else in it is opaque."""
        parts: list[tuple[Monomial, int]] = []
        for symbols, factor in self.terms:
            parts.append((tuple(map(_shared, symbols)), factor))
        found = _sum(parts)
        return found.told if found is not None else None

    @property
    def uniform(self) -> bool:
        """Whether every thread of a block has the same value (in the same iteration of each loop)."""
        return not any(symbol.kind == "thread" for symbol in self.symbols)

    def coefficient(self, name: str) -> int | None:
        """What the value grows by when symbol `name` grows by one.

        0 where the form does not depend on it; None where the growth is no constant: it depends on
        another symbol, or the form is not linear in this one.
        """
        growth = self.growth(name)
        return growth.value if growth is not None else None

    def side_by_side(self, name: str) -> bool:
        """Whether values of symbol `name` that are neighbours give neighbours: `name` itself or its remainder is added,
        as in `(name / n * m + c) * n + name % n`.
        """
        if self.coefficient(name) in (1, -1):
            return True
        alone = (symbols[0] for symbols, factor in self.terms if len(symbols) == 1 and abs(factor) == 1)
        return any(s.operation in ("%", "&") and s.operands[0].coefficient(name) in (1, -1) for s in alone)

    def growth(self, name: str) -> Form | None:
        """As `coefficient`, with other symbols kept: `n` for `n * threadIdx.y`; None if not linear."""
        parts: list[tuple[Monomial, int]] = []
        for symbols, factor in self.terms:
            hits = [s for s in symbols if s.mentions(name)]
            if len(hits) > 1 or any(s.name != name for s in hits):
                return None
            if hits:
                parts.append((tuple(s for s in symbols if s.name != name), factor))
        return _sum(parts)

    def evaluate(self, values: Mapping[str, int]) -> int | None:
        """The value where every symbol has one of `values`; None if one is missing."""
        total = 0
        for symbols, factor in self.terms:
            for symbol in symbols:
                value = _symbol_value(symbol, values)
                if value is None:
                    return None
                factor *= value
            total += factor
        return total


def _shared(symbol: Symbol) -> Symbol:
    """What is loaded from a place that is the same for all threads, as a value that the launch passes."""
    alike = symbol.operation == LOADED and bool(symbol.operands) and all(o.uniform for o in symbol.operands)
    return Symbol(symbol.name, "parameter") if alike else symbol


def opaque(name: str, operation: str, *operands: Form) -> Form:
    """A symbol for what no form tells (`LOADED`, `NARROWED` and a type, `UNKNOWN`)."""
    return variable(Symbol(name, "derived", operation, operands))


def value_count(form: Form, loaded: Callable[[str], int | None]) -> int | None:
    """How many values a form can take at most, from types, `%`, `&` and `min`; None where nothing bounds them.

    What is the same for all threads counts as one. `loaded` says how many the element of that name can have.
    """
    total = 1
    for symbol in {symbol for symbols, _ in form.terms for symbol in symbols}:
        count = _symbol_count(symbol, loaded)
        if count is None:
            return None
        total *= count
    return total


def _symbol_count(symbol: Symbol, loaded: Callable[[str], int | None]) -> int | None:
    if symbol.operation == LOADED:
        return loaded(symbol.name)
    if symbol.operation == UNKNOWN or symbol.kind == "thread":
        return None
    counts = [value_count(operand, loaded) for operand in symbol.operands]
    if symbol.operation.startswith(NARROWED):
        narrow = integer_type(symbol.operation.removeprefix(NARROWED))
        return _least(narrow.values if narrow is not None else None, *counts)
    return _derived_count(symbol, counts) if counts else 1


def _derived_count(symbol: Symbol, counts: Sequence[int | None]) -> int | None:
    left, by, name = counts[0], symbol.operands[-1].value, symbol.operation
    if name == "%" and by:
        return _least(abs(by), left)
    if name == "&" and by is not None and by >= 0:
        return _least(by + 1, left)
    if name == "min":
        return _least(*(v + 1 for o in symbol.operands if (v := o.value) is not None and v >= 0))
    if name in ("/", ">>") and by and by > 0 and left is not None:
        return max(1, left // by if name == "/" else left >> by)
    known = [count for count in counts if count is not None]
    return math.prod(known) if len(known) == len(counts) else None


def _least(*bounds: int | None) -> int | None:
    return min((b for b in bounds if b is not None), default=None)


ZERO = Form()
ONE = Form((((), 1),))


def number(value: int) -> Form:
    """A constant."""
    return Form((((), value),)) if value else ZERO


def variable(symbol: Symbol) -> Form:
    """A form that is one symbol."""
    return Form((((symbol,), 1),))


def _sum(parts: Iterable[tuple[Monomial, int]]) -> Form | None:
    totals: dict[Monomial, int] = {}
    for symbols, factor in parts:
        totals[symbols] = totals.get(symbols, 0) + factor
    terms = sorted(((s, f) for s, f in totals.items() if f), key=lambda t: [s.name for s in t[0]])
    return Form(tuple(terms)) if len(terms) <= _MAX_TERMS else None


def add(a: Form, b: Form) -> Form | None:
    """a + b; None beyond the size that is worth keeping."""
    return _sum([*a.terms, *b.terms])


def multiply(a: Form, b: Form) -> Form | None:
    """a * b; None beyond the size that is worth keeping."""
    if len(a.terms) * len(b.terms) > _MAX_TERMS:
        return None
    parts = []
    for left, i in a.terms:
        for right, j in b.terms:
            symbols = tuple(sorted((*left, *right), key=lambda s: s.name))
            if len(symbols) > _MAX_DEGREE:
                return None
            parts.append((symbols, i * j))
    return _sum(parts)


def subtract(a: Form, b: Form) -> Form | None:
    """a - b; None beyond the size that is worth keeping."""
    return _sum([*a.terms, *((symbols, -factor) for symbols, factor in b.terms)])


def derive(operation: str, left: Form, right: Form) -> Form | None:
    """An operation that is no sum or product: a number where it is constant, else a derived symbol."""
    a, b = left.value, right.value
    if a is not None and b is not None:
        result = apply(operation, a, b)
        return number(result) if result is not None else None
    if max(_depth(left), _depth(right)) > _MAX_DEPTH:
        return None
    name = f"({describe(left)} {operation} {describe(right)})"
    return variable(Symbol(name, "derived", operation, (left, right))) if len(name) < 2000 else None


_DERIVED = frozenset({"/", "%", "&", "|", "^", "<<", ">>", "min", "max"})


def combine(operator: str, left: Form, right: Form) -> Form | None:
    """left op right, as C computes it; None for an operator that gives no integer form."""
    if operator == "+":
        return add(left, right)
    if operator == "-":
        return subtract(left, right)
    if operator == "*":
        return multiply(left, right)
    by = right.value
    if operator == "<<" and by is not None and 0 <= by < 31:
        return multiply(left, number(1 << by))
    if operator in ("/", "%") and by == 0:
        return None
    if operator == "/" and by == 1:
        return left
    return derive(operator, left, right) if operator in _DERIVED else None


def _depth(form: Form) -> int:
    depths = [_depth(o) for symbols, _ in form.terms for s in symbols for o in s.operands]
    return 1 + max(depths, default=0)


def describe(form: Form) -> str:
    """The form as an expression, for messages and for names of derived symbols."""
    parts = []
    for symbols, factor in form.terms:
        names = " * ".join(s.name for s in symbols)
        if not names:
            parts.append(str(factor))
        else:
            parts.append(names if factor == 1 else f"{factor} * {names}")
    return " + ".join(parts) or "0"


def _symbol_value(symbol: Symbol, values: Mapping[str, int]) -> int | None:
    if symbol.name in values:
        return values[symbol.name]
    if not symbol.operands or symbol.opaque:
        return None
    operands = [operand.evaluate(values) for operand in symbol.operands]
    known = [v for v in operands if v is not None]
    return apply(symbol.operation, *known) if len(known) == len(operands) else None
