# SPDX-License-Identifier: Apache-2.0
"""What a kernel decides by doubles, or by whole numbers of 64 bits, and an edit by floats, for a part at least, by PTX.

A product of floats and a difference of two such have errors that a bound may be too narrow for, once in millions of
places, and vanish where they are small. The doubles behind such a filter are asked too seldom then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel
from warplens_tools.toolchain.ptx_values import Values

_COMPARES = re.compile(r"(?:setp|set)\.\w+(?:\.\w+)*?\.([fsu](?:32|64))\Z")
_PRODUCT = re.compile(r"(?:mul|fma|mad)(?:\.\w+)*\.([fsu](?:32|64))\Z")
#: What a number is worked out by in its own format, and what makes it of others.
_ARITHMETIC = r"(?:mov|selp|add|sub|mul|mad|fma|neg|abs|min|max|ld|ldu|cvt)\b"
_WORKS_OUT = {
    "f32": re.compile(_ARITHMETIC + r"(?!.*f64)"),
    "f64": re.compile(_ARITHMETIC),
    "64": re.compile(_ARITHMETIC + r"(?!.*f(?:32|64))"),
}
#: Whose product is one of 64 bits.
_WIDE = re.compile(r"(?:mul|mad)\.(?:wide|lo)\.[su](?:32|64)\Z")


class Filters(msgspec.Struct, frozen=True):
    """Of one kernel: the pointers behind which numbers lie of whose products, or sums of such, whole numbers of 64 bits
    are ordered, doubles, and floats."""

    wholes: frozenset[str] = frozenset()
    doubles: frozenset[str] = frozenset()
    floats: frozenset[str] = frozenset()


def filters_in(ptx: str) -> dict[str, Filters]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _of)


def filtered(baseline: Mapping[str, Filters], candidate: Mapping[str, Filters]) -> str:
    """What a candidate decides by floats and the baseline by something more exact alone; "" for nothing."""
    for name, new in candidate.items():
        known = baseline.get(name, Filters())
        for exact, coarse, words in (
            (known.doubles, new.floats, "in float of what lies behind {}, the kernel in double alone"),
            (known.wholes, new.floats, "in float of what lies behind {}, the kernel whole numbers alone"),
            (known.wholes, new.doubles, "in double of what lies behind {}, the kernel whole numbers alone"),
        ):
            before = known.floats if coarse is new.floats else known.floats | known.doubles
            if lost := exact & coarse - before:
                return f"the edit compares products {words.format(f'parameter {int(min(lost)[1:]) + 1}')}"
    return ""


def _of(flow: Flow) -> Filters:
    values = Values(flow)
    found: dict[str, set[str]] = {"f32": set(), "f64": set(), "64": set()}
    for name, operands in values.instructions:
        compares = _COMPARES.match(name)
        kind = compares[1] if compares is not None else ""
        kind = kind if kind[:1] == "f" else "64" if kind.endswith("64") else ""
        for side in operands[1:3] if kind else ():
            for of, bases in _products(values, side, kind):
                found[of] |= bases
    return Filters(frozenset(found["64"]), frozenset(found["f64"]), frozenset(found["f32"]))


def _products(values: Values, side: str, kind: str) -> Iterator[tuple[str, set[str]]]:
    """By its format, the pointers behind which both factors of a product lie that a side is worked out from."""
    through = _WORKS_OUT[kind]
    for register in values.behind(side, through):
        for name, sources in values.made.get(register, ()):
            product = _PRODUCT.match(name)
            if product is None or len(sources) < 2 or (kind == "64" and not _WIDE.match(name)):
                continue
            of = "64" if kind == "64" else product[1]
            if of in _WORKS_OUT:
                one, other = ({b for b in values.origins(s, through) if b[0] == "@"} for s in sources[:2])
                yield of, one & other or (one | other if one and other else set())
