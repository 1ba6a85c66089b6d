# SPDX-License-Identifier: Apache-2.0
"""Integers that a warp's registers hold, as polynomials of what all its lanes share.

A value is a sum of products of *atoms*, things the same for all lanes of a warp that are not known (block
indices, parameters, the iteration of a loop), each with one coefficient per lane. Arithmetic is that of
32-bit registers, modulo 2^32, so sums, products and left shifts are exact. What splits a number (right
shifts, masks) is followed where the atoms' known multiples keep the parts apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

MODULUS = 1 << 32
#: The largest multiple that is told of an atom; more never matters to an address.
MOST_MULTIPLE = 1 << 24
_MOST_TERMS = 24
_MOST_DEGREE = 4

Coefficient = int | tuple[int, ...]
Monomial = tuple[str, ...]


class Atom(msgspec.Struct, frozen=True):
    """What is known of something that all lanes of a warp share."""

    #: A power of two that divides it.
    multiple: int = 1
    #: It is never negative.
    natural: bool = False
    #: Basic block in which it comes about; -1 for what a launch fixes.
    block: int = -1
    #: What one more iteration adds to it, as a magnitude: 0 where nothing was seen to, -1 where that is no one number.
    step: int = 0


Atoms = Mapping[str, Atom]
_SIGN_BIT = 31
#: Why a quotient is not known of which a warp yet has a few values only, as neighbouring lanes have the same.
FEW_QUOTIENTS = "a division leaves a warp a few values, of which an unknown part decides"
_FEW = 4


class Unknown(msgspec.Struct, frozen=True):
    """A register of which nothing is known, and why."""

    why: str
    #: The number of the warp in its block would tell it.
    mixed: bool = False


class Value(msgspec.Struct, frozen=True):
    """A polynomial: monomials of atom names, sorted, with their coefficients; no coefficient is zero."""

    terms: tuple[tuple[Monomial, Coefficient], ...] = ()

    @property
    def constant(self) -> Coefficient:
        """The part without atoms."""
        return next((c for monomial, c in self.terms if not monomial), 0)

    @property
    def known(self) -> bool:
        """Whether every lane's value is a known number."""
        return all(not monomial for monomial, _ in self.terms)

    @property
    def uniform(self) -> bool:
        """Whether all lanes hold the same."""
        return all(isinstance(c, int) for _, c in self.terms)

    @property
    def number(self) -> int | None:
        """The one known number that all lanes hold, if it is one."""
        constant = self.constant
        return constant if self.known and isinstance(constant, int) else None

    @property
    def atoms(self) -> set[str]:
        """Names of the atoms in it."""
        return {name for monomial, _ in self.terms for name in monomial}


LaneValue = Value | Unknown
#: Makes an atom of a multiple that may be natural.
Fresh = Callable[[int, bool], Value]
ZERO = Value()


def number(value: int) -> Value:
    """The same number in every lane."""
    value %= MODULUS
    return Value((((), value),)) if value else ZERO


def per_lane(values: Sequence[int]) -> Value:
    """One number per lane."""
    found = _tidy(tuple(v % MODULUS for v in values))
    return Value((((), found),)) if found else ZERO


def atom(name: str) -> Value:
    """An atom by itself."""
    return Value((((name,), 1),))


def add(a: Value, b: Value) -> LaneValue:
    """a + b."""
    if not a.terms or not b.terms:
        return b if not a.terms else a
    totals: dict[Monomial, Coefficient] = dict(a.terms)
    for monomial, c in b.terms:
        totals[monomial] = _each(lambda x, y: x + y, totals.get(monomial, 0), c)
    return _collected(totals)


def multiply(a: Value, b: Value) -> LaneValue:
    """a * b."""
    totals: dict[Monomial, Coefficient] = {}
    for left, x in a.terms:
        for right, y in b.terms:
            monomial = tuple(sorted((*left, *right)))
            product = _each(lambda p, q: p * q, x, y)
            totals[monomial] = _each(lambda p, q: p + q, totals.get(monomial, 0), product)
    return _collected(totals)


def negate(a: Value) -> Value:
    """-a."""
    return Value(tuple((m, _each(lambda x, _: -x, c, 0)) for m, c in a.terms))


def subtract(a: Value, b: Value) -> LaneValue:
    """a - b."""
    return add(a, negate(b))


def shared_part(a: Value) -> Value:
    """The terms with atoms."""
    return Value(tuple(t for t in a.terms if t[0]))


def lanes_of(a: Value, count: int) -> tuple[int, ...]:
    """The part without atoms, lane by lane."""
    constant = a.constant
    return (constant,) * count if isinstance(constant, int) else constant


def multiple_of(a: Value, atoms: Atoms) -> int:
    """The largest power of two known to divide it, `MOST_MULTIPLE` at most."""
    found = MOST_MULTIPLE
    for monomial, c in a.terms:
        product = math.prod(atoms[name].multiple for name in monomial)
        numbers = (c,) if isinstance(c, int) else c
        found = math.gcd(found, *(n * product for n in numbers))
    return found


def is_natural(a: Value, atoms: Atoms) -> bool:
    """Whether it is known not to be negative, if 32 bits hold it."""
    return all(
        all(signed(n) >= 0 for n in ((c,) if isinstance(c, int) else c))
        and all(atoms[name].natural for name in monomial)
        for monomial, c in a.terms
    )


def signed(n: int) -> int:
    """A 32-bit register read as a signed number."""
    return n - MODULUS if n >= MODULUS // 2 else n


def map_lanes(values: Sequence[Value], operation: Callable[..., int]) -> Value | None:
    """An operation lane by lane where every lane's operands are known numbers; None where not."""
    if not all(v.known for v in values):
        return None
    constants = [v.constant for v in values]
    if all(isinstance(c, int) for c in constants):
        return number(operation(*constants))
    count = next(len(c) for c in constants if isinstance(c, tuple))
    columns = [lanes_of(v, count) for v in values]
    return per_lane([operation(*row) for row in zip(*columns, strict=True)])


def shift_right(a: Value, bits: int, atoms: Atoms, fresh: Fresh, *, arithmetic: bool) -> LaneValue:
    """a >> bits of a number that 32 bits hold without overflow, rounded down.

    Known where the shared part is a multiple of 2^bits, or where the lanes' own parts never carry into it.
    """
    exact = map_lanes([a], lambda x: (signed(x) if arithmetic else x) >> bits)
    if exact is not None:
        return exact
    natural = is_natural(a, atoms)
    if bits == _SIGN_BIT and natural:
        return ZERO
    shared, own = shared_part(a), a.constant
    multiple = multiple_of(shared, atoms)
    if a.uniform:
        return fresh(max(1, multiple_of(a, atoms) >> bits), natural)
    if not shared.uniform:
        return Unknown("lanes that are an unknown number apart are divided")
    numbers = (own,) if isinstance(own, int) else own
    if multiple % (1 << bits) == 0:
        return add(per_lane([signed(n) >> bits for n in numbers]), fresh(multiple >> bits, natural))
    if all(n < multiple for n in numbers):
        return fresh(1, natural)
    signs = [signed(n) for n in numbers]
    few = (max(signs) - min(signs)) >> bits < _FEW
    return Unknown(
        FEW_QUOTIENTS if few else "a division mixes the lane's own part with an unknown one", mixed=True
    )


def bitwise(
    operands: Sequence[Value], operation: Callable[..., int], atoms: Atoms, fresh: Fresh
) -> LaneValue:
    """An operation bit by bit. Bits below every shared part's multiple are exact; above them the result
    must hang on no unknown, or on unknowns that all lanes share."""
    exact = map_lanes(operands, operation)
    if exact is not None:
        return exact
    shared = [shared_part(v) for v in operands]
    if not all(s.uniform for s in shared):
        return Unknown("lanes that are an unknown number apart are masked")
    low = min(multiple_of(s, atoms) for s in shared if s.terms)
    count = next((len(v.constant) for v in operands if isinstance(v.constant, tuple)), 1)
    own = [lanes_of(v, count) for v in operands]
    exact_low = [operation(*row) & (low - 1) for row in zip(*own, strict=True)]
    high = _high_part(own, shared, operation, low)
    if isinstance(high, tuple):
        return per_lane([a + b for a, b in zip(exact_low, high, strict=True)])
    if high is None:
        return Unknown("a mask mixes the lane's own part with an unknown one", mixed=True)
    return add(per_lane(exact_low), fresh(high, False))


def _high_part(
    own: Sequence[tuple[int, ...]], shared: Sequence[Value], operation: Callable[..., int], low: int
) -> tuple[int, ...] | int | None:
    """Bits from `low` on: the lanes' numbers where no unknown decides them, else a power of two that
    divides them where all lanes share them, else None."""
    ones = MODULUS - 1
    unknown = [i for i, s in enumerate(shared) if s.terms]
    results: list[tuple[int, ...]] = []
    for choice in range(1 << len(unknown)):
        filled = list(own)
        for n, i in enumerate(unknown):
            filled[i] = (ones if choice >> n & 1 else 0,) * len(own[i])
        results.append(tuple(operation(*row) & ones & -low for row in zip(*filled, strict=True)))
    if all(r == results[0] for r in results):
        return results[0]
    constant = all(len({n // low for n in own[i]}) == 1 for i in unknown)
    if not constant or any(len(set(r)) > 1 for r in results):
        return None
    possible = 0
    for result in results:
        possible |= result[0]
    return possible & -possible if possible else MOST_MULTIPLE


def describe(a: Value) -> str:
    """A value in words, its lanes as a stride where they have one: "4*lane + 1024*blockIdx.x + 16"."""
    parts: list[str] = []
    for monomial, c in sorted(a.terms, key=lambda t: (not t[0], t[0])):
        numbers = (c,) if isinstance(c, int) else c
        factors = "*".join(monomial)
        base, step = signed(numbers[0]), stride_of(c)
        if step:
            parts.append("*".join(filter(None, ["" if step == 1 else str(step), "lane", factors])))
        elif step is None:
            parts.append("*".join(filter(None, ["f(lane)", factors])))
            continue
        if base:
            parts.append("*".join(filter(None, ["" if base == 1 and factors else str(base), factors])))
    return " + ".join(parts) or "0"


def stride_of(c: Coefficient) -> int | None:
    """The distance of neighbouring lanes; None where it differs."""
    if isinstance(c, int):
        return 0
    steps = {(b - a) % MODULUS for a, b in itertools.pairwise(c)}
    return signed(steps.pop()) if len(steps) == 1 else None


def _collected(totals: Mapping[Monomial, Coefficient]) -> LaneValue:
    terms = tuple(sorted(((m, c) for m, c in totals.items() if c), key=lambda t: t[0]))
    if len(terms) > _MOST_TERMS or any(len(m) > _MOST_DEGREE for m, _ in terms):
        return Unknown("the address has too many terms")
    return Value(terms)


def _each(operation: Callable[[int, int], int], a: Coefficient, b: Coefficient) -> Coefficient:
    if isinstance(a, int) and isinstance(b, int):
        return operation(a, b) % MODULUS
    count = len(a) if isinstance(a, tuple) else len(b)  # type: ignore[arg-type]
    left = a if isinstance(a, tuple) else (a,) * count
    right = b if isinstance(b, tuple) else (b,) * count
    return _tidy(tuple(operation(x, y) % MODULUS for x, y in zip(left, right, strict=True)))


def _tidy(values: tuple[int, ...]) -> Coefficient:
    return values[0] if all(v == values[0] for v in values) else values
