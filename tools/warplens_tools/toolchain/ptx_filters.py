# SPDX-License-Identifier: Apache-2.0
"""What a kernel decides by doubles and an edit by floats, for a part at least, by PTX.

A product of floats and a difference of two such have errors that a bound may be too narrow for, once in millions of
places, and vanish where they are small. The doubles behind such a filter are asked too seldom then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel
from warplens_tools.toolchain.ptx_values import Values

_COMPARES = re.compile(r"(?:setp|set)\.\w+(?:\.\w+)*?\.f(32|64)\Z")
_PRODUCT = re.compile(r"(?:mul|fma)(?:\.\w+)*\.f(32|64)\Z")
#: What a float is worked out by in its own format.
_WORKS_OUT = {
    "32": re.compile(r"(?:mov|selp|add|sub|mul|fma|neg|abs|min|max|ld|ldu)\b(?!.*f64)"),
    "64": re.compile(r"(?:mov|selp|add|sub|mul|fma|neg|abs|min|max|ld|ldu|cvt)\b"),
}


class Filters(msgspec.Struct, frozen=True):
    """Of one kernel: the pointers behind which floats lie of whose products doubles are compared, and floats."""

    doubles: frozenset[str] = frozenset()
    floats: frozenset[str] = frozenset()


def filters_in(ptx: str) -> dict[str, Filters]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _of)


def filtered(baseline: Mapping[str, Filters], candidate: Mapping[str, Filters]) -> str:
    """What a candidate decides by floats and the baseline by doubles alone; "" for nothing."""
    for name, new in candidate.items():
        known = baseline.get(name, Filters())
        if lost := known.doubles & new.floats - known.floats:
            where = f"parameter {int(min(lost)[1:]) + 1}"
            return (
                f"the edit compares products in float of what lies behind {where}, the kernel in double alone"
            )
    return ""


def _of(flow: Flow) -> Filters:
    values = Values(flow)
    found: dict[str, set[str]] = {"32": set(), "64": set()}
    for name, operands in values.instructions:
        compares = _COMPARES.match(name)
        if compares is not None:
            for side in operands[1:3]:
                found[compares[1]] |= set(_products(values, side, compares[1]))
    return Filters(frozenset(found["64"]), frozenset(found["32"]))


def _products(values: Values, side: str, bits: str) -> Iterator[str]:
    """The pointers behind which both factors of a product lie that a side is worked out from."""
    through = _WORKS_OUT[bits]
    for register in values.behind(side, through):
        for name, sources in values.made.get(register, ()):
            product = _PRODUCT.match(name)
            if product is not None and product[1] == bits and len(sources) >= 2:
                one, other = ({b for b in values.origins(s, through) if b[0] == "@"} for s in sources[:2])
                yield from one & other or (one | other if one and other else ())
