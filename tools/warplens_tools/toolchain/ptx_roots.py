# SPDX-License-Identifier: Apache-2.0
"""Places by a root or a logarithm of another place, by PTX: `(sqrtf(8 * n + 1) - 1) / 2` is a row of a triangle.

A float has 24 bits, a double 53: of larger numbers the root lies next to a whole one and comes out on either side. It
is right where it is put right, by one more and by one less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel
from warplens_tools.toolchain.ptx_values import Values

_ROOT = re.compile(r"(?:sqrt|rsqrt|lg2)\.\w+(?:\.\w+)*\.f(32|64)\Z")
_FROM_WHOLE = re.compile(r"cvt\.\w+\.f(32|64)\.[su](16|32|64)\Z")
_TO_WHOLE = re.compile(r"cvt\.\w+(?:\.\w+)*\.[su](?:16|32|64)\.f(?:32|64)\Z")
#: What a float is worked out by.
_WORKS_OUT = re.compile(r"(?:mov|cvt|selp|add|sub|mul|fma|div|rcp|neg|abs|min|max|sqrt|rsqrt|lg2)\b")
_HANDS_ON = re.compile(r"(?:mov|cvt)\b")
_STAYS = re.compile(r"(?:mov|cvt|selp|min|max|add\.[su]|sub\.[su])(?!\S*f)")
_NUMBER = re.compile(r"-?\d+")
_BY_ONE = re.compile(r"(?:add|sub)\.[su](?:32|64)\Z")


def roots_in(ptx: str) -> frozenset[str]:
    """The kernels that make whole numbers of whole numbers' roots and never put them right, by the names that they have
    whatever the unit."""
    return frozenset(name for name, by in by_kernel(ptx, _by_roots).items() if by)


def by_roots(baseline: frozenset[str], candidate: frozenset[str]) -> str:
    """Why places of a candidate may be wrong, by what its kernels do and the baseline's; "" if nothing says so."""
    if candidate - baseline:
        return "the edit numbers something by a float's root or logarithm and does not put it right on both sides"
    return ""


def _by_roots(flow: Flow) -> bool:
    values = Values(flow)
    wholes = {
        register
        for register, steps in values.made.items()
        for name, sources in steps
        if _TO_WHOLE.match(name) and any(_is_root(values, source) for source in sources)
    }
    return any(not _is_put_right(values, whole) for whole in wholes)


def _is_root(values: Values, register: str) -> bool:
    """Whether a float is worked out from the root of a whole number that may have too many bits for it."""
    for one in values.behind(register, _WORKS_OUT):
        for name, sources in values.made.get(one, ()):
            found = _ROOT.match(name)
            if found and any(_is_whole(values, source, found[1]) for source in sources):
                return True
    return False


def _is_whole(values: Values, register: str, bits: str) -> bool:
    return any(
        found is not None and int(found[2]) >= int(found[1]) and found[1] == bits
        for one in values.behind(register, _WORKS_OUT)
        for found in (_FROM_WHOLE.match(name) for name, _ in values.made.get(one, ()))
    )


def _is_put_right(values: Values, whole: str) -> bool:
    """Whether something is the number, or one more, or one less, as it turns out, and twice at that: a root lies on
    either side. Where one is added or taken off at once, the other way is left."""
    same = {r for r in values.made if whole in values.behind(r, _HANDS_ON)} | {whole}
    family = _family(values, whole)
    choices = [(by, made & family) for by, made in _choices(values) if made & family]
    ways = set[tuple[str, str]]()
    for name, operands in values.instructions:
        if not _BY_ONE.match(name) or operands[0] not in family or family.isdisjoint(operands[1:3]):
            continue
        chosen = set(_ways_of_chosen(values, name, operands))
        way = _way(name, operands)
        ways |= chosen or {(by, way) for by, made in choices if {operands[0]} < made}
        if not same.isdisjoint(operands[1:3]) and not any(same & made for _, made in choices):
            ways.add(("at once", way))
    # what one answer decides is one way, and its neighbour
    return any(
        way == "up" and (other, "down") != (by, "down")
        for by, way in ways
        for other, w in ways
        if w == "down"
    )


def _family(values: Values, whole: str) -> set[str]:
    """What a number may be under other names, or a few more or less."""
    found = {whole}
    while more := {
        register
        for register, steps in values.made.items()
        if register not in found and any(_STAYS.match(name) and not found.isdisjoint(s) for name, s in steps)
    }:
        found |= more
    return found


def _way(name: str, operands: tuple[str, ...]) -> str:
    below = any(_NUMBER.fullmatch(one) and one.startswith("-") for one in operands[1:])
    return "down" if name.startswith("sub") != below else "up"


def _ways_of_chosen(values: Values, name: str, operands: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Which ways a sum with what is one, or nothing, as it turns out, goes, each with what it turns on; none where
    nothing is so."""
    for made, to in values.instructions:
        if made.startswith(("selp", "set.")) and to and to[0] in operands[1:3]:
            below = any(number.startswith("-") for number in to[1:3])
            yield to[-1], "down" if name.startswith("sub") != below else "up"


def _choices(values: Values) -> Iterator[tuple[str, set[str]]]:
    """What may be one of several: what decides that, or the register itself, and what it is made of."""
    by = {to[0]: to[-1] for name, to in values.instructions if to and name.startswith("selp")}
    for register, steps in values.made.items():
        made = {source for _, sources in steps for source in sources}
        if len(steps) > 1 or any(name.startswith(("selp", "min", "max")) for name, _ in steps):
            yield by.get(register, register), made | {register}
