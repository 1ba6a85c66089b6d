# SPDX-License-Identifier: Apache-2.0
"""Whole numbers that go through floats, by PTX: a place kept beside a distance in a `float2`, a quotient by a float's
reciprocal.

A float holds whole numbers to 2^24, a double to 2^53, a half to 2^11; beyond, every other one is missing. Told are
integers that may have more bits, become floats and then integers again. A quotient that is put right by what it leaves
is none.
"""

from __future__ import annotations

import re

from warplens_tools.toolchain.ptx_bits import Bits
from warplens_tools.toolchain.ptx_flow import Flow, kernels_of
from warplens_tools.toolchain.symbols import unit_free_name

_INTO = re.compile(r"\bcvt\.r[nzmp]\.f(16|32|64)\.[su](?:8|16|32|64)\s+(%\w+)\s*,\s*(%\w+)\s*;")
_OUT = re.compile(
    r"\bcvt\.r[nzmp]i(?:\.ftz|\.sat)*\.[su](?:16|32|64)\.f(?:16|32|64)\s+(%\w+)\s*,\s*(%\w+)\s*;"
)
_EXACT = {"16": 11, "32": 24, "64": 53}
#: What makes a float of floats, or hands its bits on; what is rounded to a whole float is a function's own.
_MAKES = re.compile(
    r"\b(?:mov|selp|min|max|add|sub|mul|fma|div|neg|abs|shfl|cvt(?=\.f(?:32|64)\.f16|\.rn\.f16\.f))(?:\.\w+)*"
    r"\s+(%\w+)(?:\|%p\d+)?\s*,\s*([^;]*);"
)
_KEEPS = re.compile(r"\bst\.shared(?:\.\w+)*\.[bf](?:32|64)\s+\[[^\]]*\]\s*,\s*([^;]*);")
_TAKES = re.compile(r"\bld\.(?:volatile\.)?shared(?:\.\w+)*\.f(?:32|64)\s+([^;\[]*),\s*\[")
_PRODUCT = re.compile(r"\b(?:mul|mad)(?:\.\w+)*\.[us](?:16|32|64)\s+%\w+\s*,([^;]*);")
_RESULT = re.compile(r"\s*(?:@!?%p\d+\s+)?[a-z][\w.]*\s+(%\w+)\s*,")
_REGISTER = re.compile(r"%\w+")


def through_floats_in(ptx: str) -> frozenset[str]:
    """The kernels in which whole numbers go through floats that may not hold them, by the names that they have whatever
    the unit."""
    return frozenset(unit_free_name(mangled) for mangled, flow in kernels_of(ptx) if _goes_through(flow))


def through_floats(baseline: frozenset[str], candidate: frozenset[str]) -> str:
    """Which whole numbers of a candidate may be rounded, by what its kernels do and the baseline's; "" for none."""
    if candidate - baseline:
        held = "2^24 (doubles: 2^53, halves: 2^11)"
        return f"the edit keeps whole numbers as floats, which hold them to {held}, the kernel does not"
    return ""


def _goes_through(flow: Flow) -> bool:
    out = _OUT.findall(flow.body)
    if not out:
        return False
    bits = Bits(flow)
    held = {to for width, to, of in _INTO.findall(flow.body) if bits.many(of) > _EXACT[width]}
    held -= _whole_parts(flow.body)
    if not held:
        return False
    held = _made_of(flow.body, held)
    multiplied = {one for operands in _PRODUCT.findall(flow.body) for one in _REGISTER.findall(operands)}
    return any(of in held and to not in multiplied for to, of in out)


def _whole_parts(body: str) -> set[str]:
    """Floats made of integers that were made of floats just before, in one block, as where an angle is reduced: no
    whole numbers to begin with."""
    found, parts = set[str](), set[str]()
    for line in body.split("\n"):
        if line.startswith("$"):
            parts.clear()
        elif (out := _OUT.search(line)) is not None:
            parts.add(out[1])
        elif (into := _INTO.search(line)) is not None and into[3] in parts:
            found.add(into[2])
        elif (made := _RESULT.match(line)) is not None:
            parts.discard(made[1])
    return found


def _made_of(body: str, held: set[str]) -> set[str]:
    made = [(to, frozenset(_REGISTER.findall(of))) for to, of in _MAKES.findall(body)]
    keeps = frozenset(one for operands in _KEEPS.findall(body) for one in _REGISTER.findall(operands))
    made += [(to, keeps) for taken in _TAKES.findall(body) for to in _REGISTER.findall(taken)]
    found = set(held)
    while more := {to for to, of in made if to not in found and of & found}:
        found |= more
    return found
