# SPDX-License-Identifier: Apache-2.0
"""For whom atomic operations, fences and ordered accesses hold, by PTX: a block, a cluster, the device or the system.

What holds within a block alone is no atomic operation, and no fence, to other blocks (PTX ISA, memory consistency
model, scope). Devices that do all of them in one place show nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel

#: From the narrowest on.
_SCOPES = ("cta", "cluster", "gpu", "sys")
_SAID = ("a block", "a cluster", "the device", "the system")
_SCOPE = re.compile(r"\.(cta|cluster|gpu|sys)\b")
_FENCE = re.compile(r"\b(?:membar\.(cta|gl|sys)|fence(?:\.\w+)*\.(cta|cluster|gpu|sys))\b")
#: Where none is named.
_DEVICE = _SCOPES.index("gpu")


class Scopes(msgspec.Struct, frozen=True):
    """Of one kernel, as places in `_SCOPES`."""

    #: The narrowest of what is done behind each pointer among its parameters, by number; "" for all others.
    least: dict[str, int] = {}
    #: How many fences it has of each.
    fences: dict[int, int] = {}


def scopes_in(ptx: str) -> dict[str, Scopes]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _of)


def narrower(baseline: Mapping[str, Scopes], candidate: Mapping[str, Scopes]) -> str:
    """What of a candidate holds for fewer threads than the baseline's does; "" if nothing is known to."""
    for name, new in candidate.items():
        known = baseline.get(name, Scopes())
        for base in sorted(known.least.keys() & new.least.keys()):
            if new.least[base] < known.least[base]:
                where = f" behind parameter {int(base) + 1}" if base else ""
                return (
                    f"the edit's operations{where} hold within {_SAID[new.least[base]]}, the kernel's within "
                    f"{_SAID[known.least[base]]}"
                )
        if not known.fences or not new.fences or min(new.fences) >= min(known.fences):
            continue
        if _as_wide(new, min(known.fences)) < _as_wide(known, min(known.fences)):
            return (
                f"a fence of the edit holds within {_SAID[min(new.fences)]}, the kernel's within "
                f"{_SAID[min(known.fences)]}"
            )
    return ""


def _as_wide(scopes: Scopes, least: int) -> int:
    return sum(number for scope, number in scopes.fences.items() if scope >= least)


def _of(flow: Flow) -> Scopes:
    least: dict[str, int] = {}
    for base, scope in _operations(flow):
        least[base] = min(scope, least.get(base, scope))
    fences = Counter(
        _DEVICE if said == "gl" else _SCOPES.index(said)
        for found in _FENCE.finditer(flow.body)
        if (said := found[1] or found[2])
    )
    return Scopes(least, dict(fences))


def _operations(flow: Flow) -> Iterator[tuple[str, int]]:
    """Atomic operations on other than shared memory, and accesses that say for whom they are in order."""
    for name, place in flow.accessed:
        if ".shared" in name:
            continue
        said = _SCOPE.search(name)
        if said is not None or name.startswith(("atom", "red.")):
            scope = _SCOPES.index(said[1]) if said is not None else _DEVICE
            yield from ((base, scope) for base in flow.bases(place) or {""})
