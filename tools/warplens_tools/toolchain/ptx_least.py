# SPDX-License-Identifier: Apache-2.0
"""The least of numbers, and what is worked out from the least of others, by PTX: `first + least` for the least of all
`first + k`.

Unsigned sums wrap around: the least place leads to a number that may be one of the largest. Sums with a sign do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel
from warplens_tools.toolchain.ptx_values import Values

_EXCHANGES = re.compile(r"(?:atom|red)(?:\.\w+)*\.(?:min|max)\.u(?:32|64)\Z")
_TAKES = re.compile(r"(?:min|max)\.[su](?:16|32|64)\Z|redux(?:\.\w+)*\.(?:min|max)\.")
_SHARED = re.compile(r"(?:atom|red)(?:\.\w+)*\.shared(?:\.\w+)*\.(?:min|max)\.[su]")
_ADDS = re.compile(r"(?:add|sub|mad|mul)(?:\.\w+)*\.[su](?:32|64)\Z")
_HANDS_ON = re.compile(r"(?:mov|cvt|selp|shfl)\b")
_THROUGH = re.compile(r"(?:mov|cvt|selp|shfl|ld(?:\.\w+)*\.shared)\b")
_KEPT = re.compile(r"ld(?:\.\w+)*\.shared\b")
_PLACE = re.compile(r"\[([^\]]*)\]")
_WIDE = re.compile(r"%rd\d+")


class Least(msgspec.Struct, frozen=True):
    """Of one kernel: the pointers behind which it leaves the least, or the largest, of unsigned numbers, and those
    where these are sums of what was the least of something before."""

    left: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()


def least_in(ptx: str) -> dict[str, Least]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _of)


def moved_least(baseline: Mapping[str, Least], candidate: Mapping[str, Least]) -> str:
    """Where a candidate takes the least of something else than the baseline; "" for nowhere."""
    for name, new in candidate.items():
        known = baseline.get(name, Least())
        if more := known.left & new.moved - known.moved:
            where = f"behind parameter {int(min(more)) + 1}"
            return f"the edit takes the least of parts of the numbers of which the kernel leaves the least {where}"
    return ""


def _of(flow: Flow) -> Least:
    values = Values(flow)
    shared = any(_SHARED.match(name) for name, _ in values.instructions)
    left, moved = set[str](), set[str]()
    for name, operands in values.instructions:
        if not _EXCHANGES.match(name):
            continue
        places = [place for operand in operands for place in _PLACE.findall(operand)]
        bases = {base for place in places for one in _WIDE.findall(place) for base in flow.bases(one)}
        left |= bases
        if _is_moved(values, operands[-1], shared):
            moved |= bases
    return Least(frozenset(left), frozenset(moved))


def _is_moved(values: Values, register: str, shared: bool) -> bool:
    """Whether a number is a sum of the least of something and of what the run gives."""
    for one in values.behind(register, _HANDS_ON):
        for name, sources in values.made.get(one, ()):
            if _ADDS.match(name) and any(
                _given(values, sources, k) for k, s in enumerate(sources) if _is_least(values, s, shared)
            ):
                return True
    return False


def _given(values: Values, sources: tuple[str, ...], but: int) -> bool:
    """Whether one of the others rests on a parameter by value, or on what was loaded."""
    return any(bool(values.origins(source)) for k, source in enumerate(sources) if k != but)


def _is_least(values: Values, register: str, shared: bool) -> bool:
    """Whether it is the least of something, as it was or by way of shared memory."""
    return any(
        _TAKES.match(name) or (shared and _KEPT.match(name))
        for one in values.behind(register, _THROUGH)
        for name, _ in values.made.get(one, ())
    )
