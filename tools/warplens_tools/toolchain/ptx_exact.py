# SPDX-License-Identifier: Apache-2.0
"""What a kernel does for the last bits of its results, by its PTX: sums that carry along what each addition loses
(Kahan, Neumaier, two-sum), and functions that are worked out to a float's precision, not approximated by one
instruction.

Both are meant for inputs that cancel, or that lie where an approximation is off by far more than a rounding. On others
a plain sum and an approximation give nearly the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from warplens_tools.toolchain.ptx_flow import of_kernels
from warplens_tools.toolchain.ptx_losses import carried_along

_ADDS = re.compile(r"\b(add|sub)(?:\.(?:rn|ftz))*\.(f32|f64)\s+(%\w+),\s*([^;,]+),\s*([^;]+);")
_MOVES = re.compile(r"\b(?:mov|selp|neg|abs)\.[fb](?:32|64)\s+(%\w+),([^;]*);")
#: What other threads hold: as it is exchanged between lanes, and out of shared memory.
_GIVEN = re.compile(
    r"\b(?:shfl\.sync\.\w+\.b32|ld\.shared(?:\.\w+)*\.[fb](?:32|64))\s+([^;,|\[]*|\{[^}]*\})[|,]"
)
_REGISTER = re.compile(r"%\w+")
_SIZES = re.compile(r"\babs(?:\.ftz)?\.(f32|f64)\s+(%\w+),")
_COMPARES = re.compile(r"\bsetp\.[a-z]+(?:\.ftz)?\.(f32|f64)\s+[^,;]+,\s*(%\w+),\s*(%\w+);")
#: How far moves and choices between registers are followed.
_FAR = 4
#: Absolute errors that no relative bound holds for: near 1, near a multiple of pi, and of 11 bits anywhere.
_APPROXIMATE = re.compile(r"\b(lg2|sin|cos|tanh)\.approx(?:\.ftz)?\.f32\b")
#: `cbrtf` begins with one logarithm and a third of it, and refines the result.
_THIRD = re.compile(r"\b0f3EAAAA(?:AA|AB)\b", re.IGNORECASE)
_SAID = {"lg2": "logarithms", "sin": "sines", "cos": "cosines", "tanh": "hyperbolic tangents"}
#: A format, a result, and what either side may hold the value of.
_Addition = tuple[str, str, set[str], set[str]]
_LOADED = re.compile(r"\bld\.global(?:\.\w+(?:::\w+)*)*\.f(?:32|64)\s+([^;,\[]*|\{[^}]*\}),")


class Exact(msgspec.Struct, frozen=True):
    """Of one kernel: the formats in which it carries along what its sums lose, and functions that it approximates."""

    compensated: frozenset[str] = frozenset()
    #: Of those, the formats in which other threads' sums, or numbers as they are loaded, are added and nothing of what
    #: that loses is carried along.
    plain: frozenset[str] = frozenset()
    #: Of those, the formats in which what is lost is right whichever of a sum and a term is the larger: by comparing
    #: sizes (Neumaier) or by two-sum. Kahan's sum takes the sum to be the larger one.
    either: frozenset[str] = frozenset()
    approximated: frozenset[str] = frozenset()


def exact_in(ptx: str) -> dict[str, Exact]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return {name: _exact(found) for name, found in of_kernels(ptx, _read).items()}


def _read(body: str) -> frozenset[tuple[str, str]]:
    """All that is looked for, each with what it is."""
    written = [(kind, to, a.strip(), b.strip()) for _, kind, to, a, b in _ADDS.findall(body)]
    additions = _additions(body, written)
    found = {
        "compensated": carried_along(body),
        "plain": _plain(body, additions),
        "either": _either(body, written),
        "approximated": _approximated(body),
    }
    return frozenset((what, one) for what, several in found.items() for one in several)


def _exact(found: frozenset[tuple[str, str]]) -> Exact:
    said: dict[str, set[str]] = {"compensated": set(), "plain": set(), "either": set(), "approximated": set()}
    for what, one in found:
        said[what].add(one)
    kinds = frozenset(said["compensated"])
    return Exact(kinds, kinds & said["plain"], kinds & said["either"], frozenset(said["approximated"]))


def less_exact(
    baseline: Mapping[str, Exact], candidate: Mapping[str, Exact], sums: Mapping[str, frozenset[str]]
) -> str:
    """How a candidate's kernels are less exact than the baseline's by what they compensate and what they approximate;
    "" if in nothing. `sums` are the formats that the candidate adds up in: what it carries in double needs no more.
    """
    for name, new in candidate.items():
        known = baseline.get(name)
        if known is None:
            continue
        lost = known.compensated - new.compensated
        if "f64" in lost or ("f32" in lost and "f32" in sums.get(name, frozenset())):
            return "the edit adds up without what the kernel carries along of each sum's rounding"
        if known.compensated & new.plain - known.plain:
            return "the edit adds sums or loaded numbers up without what is lost there, which the kernel carries along"
        if known.either & new.compensated - new.either:
            return "the edit carries along what additions lose as if the sum were the larger, the kernel whichever is"
        if more := sorted(new.approximated - known.approximated):
            return f"the edit approximates {more[0]} that the kernel works out"
    return ""


def _additions(body: str, written: Sequence[tuple[str, str, str, str]]) -> list[_Addition]:
    """Each with its format, its result, and what either side may hold the value of."""
    alike = _alike(body) if written else {}
    return [(kind, to, alike.get(a, {a}), alike.get(b, {b})) for kind, to, a, b in written]


def _plain(body: str, additions: Sequence[_Addition]) -> set[str]:
    """The formats in which floats of other lanes, or out of shared memory, are added up, and no such addition is looked
    at for what it loses: s = a + b, and a or b less s. What was lost may be added so; two numbers that are loaded may
    not."""
    given = {to for moved in _GIVEN.findall(body) for to in _REGISTER.findall(moved)}
    made = {to: (kind, a, b) for kind, to, a, b in additions}
    looked_at = {
        s
        for _, _, left, right in additions
        for one, other in ((left, right), (right, left))
        for s in one & made.keys()
        if other & (made[s][1] | made[s][2])
    }
    loaded = {to for moved in _LOADED.findall(body) for to in _REGISTER.findall(moved)}
    pairs = {kind for kind, to, a, b in additions if a & loaded and b & loaded and to not in looked_at}
    among = {
        kind: {to for k, to, a, b in additions if k == kind and (a | b) & given} for kind in ("f32", "f64")
    }
    return {kind for kind, sums in among.items() if kind in pairs or (sums and not sums & looked_at)}


def _either(body: str, written: Sequence[tuple[str, str, str, str]]) -> set[str]:
    """The formats in which sizes of two numbers are compared, or what a sum s = a + b took of a is taken off s again:
    s - (s - a)."""
    sizes = {to: kind for kind, to in _SIZES.findall(body)}
    compared = {kind for kind, a, b in _COMPARES.findall(body) if sizes.get(a) == sizes.get(b) == kind}
    # as they stand: all of it is done to one term, between moves
    terms = {to: {a, b} for _, to, a, b in written}
    for kind, _, a, b in written:
        for s, z in ((a, b), (b, a)):
            # a register that something is added to again has itself among its terms
            if s in terms.get(z, ()) and (terms[z] & terms.get(s, set())) - {s}:
                compared.add(kind)
    return compared


def _alike(body: str) -> dict[str, set[str]]:
    """For each register those that it may hold the value of, itself among them."""
    from_: dict[str, set[str]] = {}
    for to, sources in _MOVES.findall(body):
        from_.setdefault(to, set()).update(s for s in _REGISTER.findall(sources) if not s.startswith("%p"))
    found = {to: {to} for to in from_}
    for _ in range(_FAR):
        for held in found.values():
            held |= set().union(*(from_.get(one, set()) for one in held))
    return found


def _approximated(body: str) -> set[str]:
    found = [match[1] for match in _APPROXIMATE.finditer(body)]
    if found.count("lg2") <= len(_THIRD.findall(body)):
        found = [one for one in found if one != "lg2"]
    return {_SAID[one] for one in found}
