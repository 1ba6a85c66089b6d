# SPDX-License-Identifier: Apache-2.0
"""Whole parts and whole quotients, by PTX: in what precision a kernel takes whole numbers off floats, and whether it
divides integers as integers.

The fraction of a large number has as many digits as its precision leaves behind the point, and an integer holds no more
than its bits. A quotient by a reciprocal, or of numbers that a double rounds, is off by one next to whole quotients,
unless it is put right by what it leaves. So it is of floats: 0.15 / 0.05 is below 3, and 0.15 * 20 is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import bodies_of

#: A double's whole part as a double, and any float's as an integer.
_WITHIN = re.compile(r"\bcvt\.r[mnpz]i\.f64\.f64\s+(%\w+)\s*,\s*(%\w+)\s*;")
_LESS = re.compile(r"\bsub(?:\.rn)?\.f64\s+%\w+\s*,\s*(%\w+)\s*,\s*(%\w+)\s*;")
_TO_INTEGER = re.compile(
    r"\bcvt\.r[mnpz]i(?:\.ftz|\.sat)*\.[us](8|16|32|64)\.f(?:32|(64))\s+(%\w+)\s*,\s*(%\w+)\s*;"
)
_CUT = re.compile(r"\bcvt\.[us](?:8|16|32)\.[us]64\s+%\w+\s*,\s*(%\w+)\s*;")
_DIVIDES = re.compile(r"\b(?:div|rem)\.[us](32|64)\s+%\w+\s*,\s*[^,;]+,\s*%\w+\s*;")
_PRODUCT = re.compile(r"\b(?:mul|mad)(?:\.\w+)*\.[us](?:16|32|64)\s+%\w+\s*,([^;]*);")
_EXACT = re.compile(r"\bdiv\.rn\.f64\s+(%\w+)\s*,")
_ROUNDED = re.compile(r"\bcvt\.r[mnpz]i(?:\.ftz)?\.f(?:32|64)\.f(?:32|64)\s+(%\w+)\s*,\s*(%\w+)\s*;")
_RATIO = re.compile(r"\b(?:div|rcp)\.rn(?:\.ftz)?\.f(?:32|64)\s+(%\w+)\s*,")
_SHARE = re.compile(r"\b(?:mul|fma)(?:\.rn|\.ftz)*\.f(?:32|64)\s+(%\w+)\s*,([^;]*);")
_REGISTER = re.compile(r"%\w+")


class Whole(msgspec.Struct, frozen=True):
    """Of one kernel: whether it takes whole parts of doubles as doubles, and a double's own off it; whether doubles
    become integers of 32 bits, and of 64; the widths in which it divides integers by what is no constant; whether any
    floats become integers, and whether such are multiplied again, or all of them quotients of doubles."""

    doubles: bool = False
    fractions: bool = False
    short: bool = False
    long: bool = False
    divides: frozenset[str] = frozenset()
    converts: bool = False
    put_right: bool = False
    exact: bool = False
    #: Whether quotients of floats are rounded to whole numbers, and whether products with a quotient are.
    ratios: bool = False
    shares: bool = False


def whole_in(ptx: str) -> dict[str, Whole]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return {name: _of(body) for name, body in bodies_of(ptx)}


def less_whole(baseline: Mapping[str, Whole], candidate: Mapping[str, Whole]) -> str:
    """What whole numbers a candidate works out in fewer digits than the baseline does; "" if none are known to be."""
    for name, new in candidate.items():
        known = baseline.get(name, Whole())
        if known.doubles and not known.short and new.short:
            return "the edit holds whole parts of doubles in 32 bits, the kernel in double"
        if known.ratios and not new.ratios and new.shares and not known.shares:
            return "the edit rounds products with a reciprocal to whole numbers, the kernel quotients"
        if not known.divides or new.divides or known.converts or not new.converts or new.put_right:
            continue
        if not new.exact or "64" in known.divides:
            return "the edit divides floats where the kernel divides whole numbers, and does not put the quotient right"
    return ""


def coarser_fractions(baseline: Mapping[str, Whole], candidate: Mapping[str, Whole]) -> str:
    """Why fractions of a candidate may have too few digits; "" if nothing is known to say so."""
    for name, new in candidate.items():
        if baseline.get(name, Whole()).fractions and not new.doubles and not new.long:
            return "the edit takes fractions of no doubles any more, as the kernel does"
    return ""


def _of(body: str) -> Whole:
    within = set(_WITHIN.findall(body))
    made = _TO_INTEGER.findall(body)
    cut = set(_CUT.findall(body))
    multiplied = {r for operands in _PRODUCT.findall(body) for r in _REGISTER.findall(operands)}
    quotients = set(_EXACT.findall(body))
    rounded = {*(of for _, of in _ROUNDED.findall(body)), *(of for _, _, _, of in made)}
    ratios = set(_RATIO.findall(body))
    shares = {to for to, of in _SHARE.findall(body) if not ratios.isdisjoint(_REGISTER.findall(of))}
    return Whole(
        bool(within),
        any((whole, of) in within for of, whole in _LESS.findall(body)),
        any(double and (bits != "64" or to in cut) for bits, double, to, _ in made),
        any(double and bits == "64" and to not in cut for bits, double, to, _ in made),
        frozenset(_DIVIDES.findall(body)),
        bool(made),
        any(to in multiplied for _, _, to, _ in made),
        bool(made) and all(of in quotients for _, _, _, of in made),
        not rounded.isdisjoint(ratios),
        not rounded.isdisjoint(shares),
    )
