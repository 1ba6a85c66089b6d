# SPDX-License-Identifier: Apache-2.0
"""Rounding in a direction, by PTX: bounds that are rounded down and up enclose what they stand for; rounded to nearest
they do so for most numbers only.

The rounding errors that a comparison allows are as large as what is lost. A product and a sum in one (`fma.rm`) rounds
once what both round, in the same direction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import COMMENT, of_kernels

_ROUNDED = re.compile(
    r"\b(add|sub|mul|fma|div|rcp|sqrt)(?:\.(r[nmpz]))?(?:\.ftz|\.sat)*\.(?:f32|f64)\s+(%\w+)\s*,([^;]*);"
)
_CONVERTED = re.compile(
    r"\bcvt\.(r[nmpz])(?:\.ftz|\.sat)*\.(?:f16|bf16|f32|f64)\.(?:[us]\d+|f32|f64)\s+(%\w+)\s*,([^;]*);"
)
_HELD = re.compile(r"\bmov\.[fb](?:32|64)\s+(%\w+)\s*,\s*(0[fd][0-9A-Fa-f]+)\s*;")
_WHOLE = re.compile(r"\bcvt\.rzi(?:\.ftz)?\.f(?:32|64)\.f(?:32|64)\s+%\w+\s*,\s*(%\w+)\s*;")
#: What each is; a sum and a product at once is both.
_KINDS = {"add": ("sums",), "sub": ("sums",), "mul": ("products",), "fma": ("products", "sums")}
_OTHERS = {"div": ("quotients",), "rcp": ("quotients",), "sqrt": ("roots",)}
_SAID = {"rm": "down", "rp": "up", "rz": "towards zero"}
#: What the math library rounds in a direction and bounds nothing by: `expf` adds 2^23 + 2^22 and one, `log1pf` one.
_BY_LIBRARY = {"rm": "0f4b400001", "rz": "0f3f800000"}


class Directed(msgspec.Struct, frozen=True):
    """Of one kernel: what it rounds in which direction, and what to nearest."""

    directed: frozenset[tuple[str, str]] = frozenset()
    nearest: frozenset[str] = frozenset()


def directed_in(ptx: str) -> dict[str, Directed]:
    """Of each kernel of a unit, by the name that it has whatever the unit; functions count for all of them."""
    found = of_kernels(COMMENT.sub(" ", ptx), lambda body: frozenset(_roundings(body)))
    return {
        name: Directed(
            frozenset(one for one in here if one[1] != "rn"),
            frozenset(kind for kind, how in here if how == "rn"),
        )
        for name, here in _pairs(found)
    }


def undirected(baseline: Mapping[str, Directed], candidate: Mapping[str, Directed]) -> str:
    """What a candidate rounds to nearest that the baseline rounds in a direction; "" if nothing is known to be."""
    for name, new in candidate.items():
        known = baseline.get(name, Directed())
        for kind, how in sorted(known.directed - new.directed):
            return f"the edit rounds no {kind} {_SAID[how]}, as the kernel does"
        # one that is directed among others that are not is none of all
        for kind in sorted({kind for kind, _ in known.directed} & new.nearest - known.nearest):
            return f"the edit rounds some {kind} to nearest, the kernel all of them in a direction"
    return ""


def _pairs(found: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for name, here in found.items():
        pairs = (one.partition(" ") for one in here)
        yield name, [(kind, how) for kind, _, how in pairs]


def _roundings(body: str) -> Iterator[str]:
    """Each kind and its rounding, as `products rm`."""
    held = {register: value.lower() for register, value in _HELD.findall(body)}
    cut = set(_WHOLE.findall(body))
    for name, how, to, operands in _ROUNDED.findall(body):
        parts = {part.strip() for part in operands.split(",")}
        constants = {held.get(part, part.lower()) for part in parts}
        if _BY_LIBRARY.get(how) in constants or (how == "rz" and to in cut):
            continue
        for kind in _KINDS.get(name) or _OTHERS[name]:
            yield f"{kind} {how or 'rn'}"
    for how, _, _ in _CONVERTED.findall(body):
        yield f"conversions {how}"
