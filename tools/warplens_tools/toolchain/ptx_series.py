# SPDX-License-Identifier: Apache-2.0
"""Functions that an edit works out by a polynomial of its own, or reduces for small angles alone, by PTX.

The math library's functions are right to a rounding or two for every number, whatever that takes: a table of 2/pi for
large angles, series of as many terms as the type has digits. A series of few terms is as right where a program's data
lie, and elsewhere it is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import bodies_of

#: 2/pi in as many bits as large angles take, which the library's sines and cosines look up.
_TABLE = re.compile(r"\b__cudart_i2opi_[fd]\b|__internal_trig_reduction_slowpathd")
#: Terms of a polynomial: what is added to a product of run-time numbers.
_TERM = re.compile(
    r"\bfma\.rn(?:\.ftz)?\.f(?:32|64)\s+(%\w+)\s*,\s*(%\w+)\s*,\s*(%\w+)\s*,\s*(%\w+|0[fd][0-9A-Fa-f]+)\s*;"
)
_CONSTANT = re.compile(r"\bmov\.f(?:32|64)\s+(%\w+)\s*,\s*(0[fd][0-9A-Fa-f]+)\s*;")
#: Of so many terms behind one another.
_FEWEST = 3


class Series(msgspec.Struct, frozen=True):
    """Of one kernel: whether it reduces large angles, and what its polynomials' terms begin with."""

    angles: bool = False
    terms: frozenset[str] = frozenset()


def series_in(ptx: str) -> dict[str, Series]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    called = _TABLE.search(ptx) is not None and ".func" in ptx
    return {
        name: Series(_TABLE.search(body) is not None or (called and "call" in body), frozenset(_terms(body)))
        for name, body in bodies_of(ptx)
    }


def own_series(baseline: Mapping[str, Series], candidate: Mapping[str, Series], *, calls_more: bool) -> str:
    """What a candidate approximates by itself, in words; "" for nothing.

    Args:
        baseline, candidate: of both units.
        calls_more: whether its text calls functions of the math library that the baseline's does not: those have
            polynomials of their own.
    """
    for name, new in candidate.items():
        known = baseline.get(name)
        if known is None or calls_more:
            continue
        if known.angles and not new.angles:
            return "the edit reduces angles by itself, which the kernel does for angles of any size"
        more = len(new.terms - known.terms)
        if more >= _FEWEST:
            return f"the edit works out a function by a polynomial of its own, of {more} terms"
    return ""


def _terms(body: str) -> list[str]:
    held = dict(_CONSTANT.findall(body))
    found = []
    chained = set[str]()
    for to, left, right, added in _TERM.findall(body):
        constant = added if added[0] == "0" else held.get(added, "")
        # the first has a constant in front, too
        if constant and ({left, right} & chained or left in held or right in held):
            chained.add(to)
            found.append(constant.lower())
    return found
