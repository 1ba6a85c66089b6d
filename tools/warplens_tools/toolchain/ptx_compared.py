# SPDX-License-Identifier: Apache-2.0
"""What a kernel compares, by its PTX: numbers as they were loaded, and which way NaN goes where floats are compared.

Two loaded numbers are equal or they are not; sums of what is mixed of them are equal by chance, too, once in four
billion times. A float lies on a border or beyond; its distance from a middle is rounded. Neither shows on data that
nobody made for it. And `!(a > b)` is `a <= b` for all numbers but NaN.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel
from warplens_tools.toolchain.ptx_values import Values

#: What leaves a number as it is, and what may, where words hold several, or one byte in all of its places.
_AS_IT_IS = re.compile(r"(?:mov|ld|ldu|cvt|selp|cvta)\b")
_NEARLY = re.compile(
    r"(?:mov|ld|ldu|cvt|selp|cvta|shfl|min|max|and|or|shl|shr|shf|bfe|bfi|prmt|lop3|redux|atom|scaled)\b"
)
_COMPARES = re.compile(r"(?:setp|set)\.(\w+)(?:\.\w+)*?\.([busf])(?:16|32|64)")
#: A difference tells as much as a comparison, whatever keeps what is zero and what is not; sums of several do not.
_DIFFERS = re.compile(r"(?:xor\.b|sub\.)")
_KEEPS = re.compile(
    r"(?:mov|cvt|selp|min|max|and|or|abs|shl|shr|shf|bfe|not|popc|clz|bfind|shfl|redux|prmt)\b"
)
#: What looks at several at once.
_OTHERWISE = re.compile(r"(?:match|vset|vmin|vmax|vabsdiff|sad|dp[24]a|brx|call)")
_EQUAL = frozenset({"eq", "ne"})
#: Comparisons of which NaN has the outcome of the greater side, or of the one that is not equal; of the others it has
#: that of equal numbers.
_WITH_EQUAL = frozenset({"lt", "gt", "leu", "geu"})
_WITH_OTHERS = frozenset({"le", "ge", "ltu", "gtu"})
_NUMBER = re.compile(r"0[fd][0-9A-Fa-f]+")

_Pair = tuple[str, str]
_Sides = tuple[frozenset[str], frozenset[str]]


class Compared(msgspec.Struct, frozen=True):
    """Of one kernel, by the pointers that numbers lie behind: the pairs that it compares as they were loaded, of which
    integers are equal or floats ordered; those that it may so compare; those of which it compares what it works out."""

    equal: frozenset[_Pair] = frozenset()
    ordered: frozenset[_Pair] = frozenset()
    nearly: frozenset[_Pair] = frozenset()
    worked_out: frozenset[_Pair] = frozenset()
    #: The pointers behind which lie numbers that lead somewhere, and whether it compares in ways that are not told.
    leads: frozenset[str] = frozenset()
    otherwise: bool = False
    #: What floats are worked out from that are compared, by which way NaN goes there.
    with_equal: frozenset[_Sides] = frozenset()
    with_others: frozenset[_Sides] = frozenset()


def compared_in(ptx: str) -> dict[str, Compared]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _compared)


def by_digests(baseline: Mapping[str, Compared], candidate: Mapping[str, Compared]) -> str:
    """Which numbers a baseline compares as they are, and a candidate by what it works out of them; "" for none."""
    for name, new in candidate.items():
        known = baseline.get(name, Compared())
        if new.otherwise:
            continue
        for pairs, said in ((known.equal, "are equal"), (known.ordered, "are less or more")):
            for pair in sorted(pairs & new.worked_out - new.nearly - known.worked_out):
                if not set(pair) & (new.leads - known.leads):
                    one, other = (int(base[1:]) + 1 for base in pair)
                    both = f"parameter {one}" if one == other else f"parameters {one} and {other}"
                    asks = f"{name} asks whether numbers behind {both} {said}"
                    return f"{asks}, the edit compares what it works out of them"
    return ""


def turned(baseline: Mapping[str, Compared], candidate: Mapping[str, Compared]) -> str:
    """Where a candidate compares floats so that NaN goes the other way than in the baseline; "" for nowhere."""
    for name, new in candidate.items():
        known = baseline.get(name, Compared())
        one = known.with_equal - known.with_others & new.with_others - new.with_equal
        other = known.with_others - known.with_equal & new.with_equal - new.with_others
        if one or other:
            return f"the edit asks the other way round for what {name} compares floats by, and NaN goes the other way"
    return ""


def _compared(flow: Flow) -> Compared:
    values = Values(flow)
    equal, ordered, nearly, worked_out = (set[_Pair]() for _ in range(4))
    ways: tuple[set[_Sides], set[_Sides]] = set(), set()
    for name, operands in values.instructions:
        compares = _COMPARES.match(name)
        if compares is None:
            continue
        kind, kept = compares[1], compares[2] == "f"
        sides = operands[1:3]
        nearly |= {*_pairs(values, sides, _NEARLY), *_differences(values, sides)}
        worked_out |= set(_all_pairs(values, sides))
        if not kept and kind in _EQUAL:
            equal |= set(_pairs(values, sides, _AS_IT_IS))
        elif kept and kind in _WITH_EQUAL | _WITH_OTHERS:
            ordered |= set(_pairs(values, sides, _AS_IT_IS))
            ways[kind in _WITH_OTHERS].add(_sides(values, sides))
    return Compared(
        frozenset(equal),
        frozenset(ordered),
        frozenset(nearly),
        frozenset(worked_out - nearly),
        frozenset(f"@{base}" for base in flow.leads()),
        any(_OTHERWISE.match(name) for name, _ in values.instructions),
        frozenset(ways[0]),
        frozenset(ways[1]),
    )


def _pairs(values: Values, sides: tuple[str, ...], through: re.Pattern[str]) -> Iterator[_Pair]:
    """The pointers that both sides are of as they were loaded, each side's beside the other's."""
    if len(sides) == 2:
        one, other = ({b for b in values.origins(s, through) if b[0] == "@"} for s in sides)
        yield from ((min(a, b), max(a, b)) for a in one for b in other)


def _differences(values: Values, sides: tuple[str, ...]) -> Iterator[_Pair]:
    """The pointers of which a difference is compared, not of a number and its own parts."""
    for register in (r for side in sides for r in values.behind(side, _KEEPS)):
        for name, sources in values.made.get(register, ()):
            if _DIFFERS.match(name) and len(sources) == 2:
                one, other = (_loaded(values, source) for source in sources)
                if one != other:
                    yield from _pairs(values, sources, _NEARLY)


def _loaded(values: Values, register: str) -> frozenset[str]:
    """The loads that a register is what it is by."""
    made = ((one, values.made.get(one, ())) for one in values.behind(register, _NEARLY))
    return frozenset(one for one, by in made if any(name.startswith(("ld.", "ldu.")) for name, _ in by))


def _all_pairs(values: Values, sides: tuple[str, ...]) -> Iterator[_Pair]:
    """The pointers that either side is worked out from, each beside each."""
    found = sorted({b for side in sides for b in values.origins(side) if b[0] == "@"})
    yield from ((a, b) for a in found for b in found if a <= b)


def _sides(values: Values, sides: tuple[str, ...]) -> _Sides:
    """What both sides of a comparison are worked out from, numbers of the text as they are; in an order of its own."""
    one, other = (frozenset({side}) if _NUMBER.fullmatch(side) else values.origins(side) for side in sides)
    return (one, other) if sorted(one) <= sorted(other) else (other, one)
