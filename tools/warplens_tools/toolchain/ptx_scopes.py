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

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel, instruction_of

#: From the narrowest on.
_SCOPES = ("cta", "cluster", "gpu", "sys")
_SAID = ("a block", "a cluster", "the device", "the system")
_SCOPE = re.compile(r"\.(cta|cluster|gpu|sys)\b")
_FENCE = re.compile(r"\b(?:membar\.(cta|gl|sys)|fence(?:\.\w+)*\.(cta|cluster|gpu|sys))\b")
#: What asks memory each time, which the host or another kernel may change meanwhile (PTX ISA, `ld`).
_ANEW = re.compile(r"(?:ld\.(?:volatile|relaxed|acquire|mmio)\b|ld\.\S*\bcv\b|atom\b)")
_ELSEWHERE = ("ld.param", "ld.shared", "ld.local", "ld.const")
_REGISTER = re.compile(r"%rd\d+")
#: Where none is named.
_DEVICE = _SCOPES.index("gpu")


class Scopes(msgspec.Struct, frozen=True):
    """Of one kernel, as places in `_SCOPES`."""

    #: The narrowest of what is done behind each pointer among its parameters, by number; "" for all others.
    least: dict[str, int] = {}
    #: How many fences it has of each.
    fences: dict[int, int] = {}
    #: Pointers among its parameters that nothing is written behind: those that a loop asks anew behind, each time, and
    #: those that it loads from otherwise.
    anew: frozenset[str] = frozenset()
    as_it_was: frozenset[str] = frozenset()


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


def asks_no_more(baseline: Mapping[str, Scopes], candidate: Mapping[str, Scopes]) -> str:
    """What a candidate asks once, or as if nothing changed it, and the baseline anew each time round a loop; "" if
    nothing is known to."""
    for name, new in candidate.items():
        known = baseline.get(name, Scopes())
        for base in sorted(known.anew - known.as_it_was):
            if base not in new.anew or base in new.as_it_was:
                return (
                    f"the kernel asks anew, round after round, what lies behind parameter {int(base) + 1}, and the "
                    "edit does not: others may change it meanwhile"
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
    written = {b for name, place in flow.accessed if not name.startswith("ld.") for b in flow.bases(place)}
    anew, as_it_was = _asked(flow)
    return Scopes(least, dict(fences), frozenset(anew - written), frozenset(as_it_was - written))


def _asked(flow: Flow) -> tuple[set[str], set[str]]:
    """The pointers behind which a loop asks memory anew, and those behind which what is loaded may be older."""
    anew, as_it_was = set[str](), set[str]()
    for number, lines in enumerate(flow.code):
        for name, operands in filter(None, map(instruction_of, lines)):
            if not name.startswith(("ld.", "atom")) or name.startswith(
                ("ld.param", "ld.shared", "ld.local", "ld.const")
            ):
                continue
            bases = {
                b for r in _REGISTER.findall(" ".join(operands).partition("[")[2]) for b in flow.bases(r)
            }
            if _ANEW.match(name) is None:
                as_it_was |= bases
            elif _goes_round(flow, number):
                anew |= bases
    return anew, as_it_was


def _goes_round(flow: Flow, block: int) -> bool:
    """Whether a block may follow itself."""
    seen, left = set[int](), list(flow.after[block])
    while left:
        if (one := left.pop()) not in seen:
            seen.add(one)
            left += flow.after[one]
    return block in seen


def _operations(flow: Flow) -> Iterator[tuple[str, int]]:
    """Atomic operations on other than shared memory, and accesses that say for whom they are in order."""
    for name, place in flow.accessed:
        if ".shared" in name:
            continue
        said = _SCOPE.search(name)
        if said is not None or name.startswith(("atom", "red.")):
            scope = _SCOPES.index(said[1]) if said is not None else _DEVICE
            yield from ((base, scope) for base in flow.bases(place) or {""})
