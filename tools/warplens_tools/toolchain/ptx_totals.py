# SPDX-License-Identifier: Apache-2.0
"""Whole numbers that a loop adds up, or counts, as floats, by PTX: a float holds whole numbers up to 2^24.

A sum of integers is exact, whatever becomes of it. The same sum of floats is as long as it stays small, and then loses
what is smaller than half of its last bit; a count stands still at 16777216.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel, components
from warplens_tools.toolchain.ptx_parts import sums_of
from warplens_tools.toolchain.ptx_values import Values

_FLOAT_SUM = re.compile(r"(?:add|sub|fma|mad)(?:\.\w+)*\.(bf16|f16|f32|f64)\Z")
_CARRIES = re.compile(r"(?:mov|selp|add|sub|fma|mad)\b")
_FROM_WHOLE = re.compile(r"cvt\.\w+(?:\.\w+)*\.(?:bf16|f16|f32|f64)\.[su](?:8|16|32|64)\Z")
#: What a term is worked out by from whole numbers and stays one.
_WHOLE_STILL = re.compile(r"(?:mov|cvt|selp|add|sub|mul|fma|mad|neg|abs|min|max)\b")
_NUMBER = re.compile(r"0[fdh][0-9A-Fa-f]+")
#: What is no whole number any more, or none that is known to be.
_A_FLOAT = re.compile(r"(?:ld|ldu|tex|div|rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh)\b(?:\S*\.f(?:16|32|64))")
_ONES = frozenset({"0F3F800000", "0D3FF0000000000000"})
_NOUGHTS = frozenset({"0F00000000", "0D0000000000000000"})
_SAID = {"bf16": "bfloat16", "f16": "half", "f32": "float", "f64": "double"}
_SMALL = frozenset({"bf16", "f16", "f32"})

_Written = tuple[str, tuple[str, ...]]
#: An operand, and the instructions that make it.
_Term = tuple[str, list[_Written]]


class Totals(msgspec.Struct, frozen=True):
    """Of one kernel: in how many bits its loops add up loaded integers, and in what floats they add up, or count by,
    whole numbers."""

    whole: frozenset[str] = frozenset()
    floats: frozenset[str] = frozenset()
    counts: frozenset[str] = frozenset()
    #: In what floats it adds up ones, whatever else is added there.
    ones: frozenset[str] = frozenset()


def totals_in(ptx: str) -> dict[str, Totals]:
    """Of each kernel of a unit, by the name that it has whatever the unit."""
    return by_kernel(ptx, _totals)


def in_floats(baseline: Mapping[str, Totals], candidate: Mapping[str, Totals]) -> str:
    """What a candidate's loops add up or count in floats, and the baseline's as integers; "" for nothing."""
    for name, new in candidate.items():
        known = baseline.get(name)
        if known is None:
            continue
        # a double holds all that 32 bits do
        more = new.floats - known.floats - (frozenset() if "64" in known.whole else frozenset({"f64"}))
        if known.whole and more:
            return f"the edit adds up in {_SAID[min(more)]} whole numbers that the kernel adds up as integers"
        if counts := (new.counts - known.ones) & _SMALL:
            return f"the edit counts in {_SAID[min(counts)]}, the kernel in integers"
    return ""


def _totals(flow: Flow) -> Totals:
    leads = flow.closure(flow.addresses)
    whole = frozenset(width for register, width in sums_of(flow) if register not in leads)
    values = Values(flow)
    floats, counts, ones = set[str](), set[str](), set[str]()
    for kind, terms in _float_sums(values):
        ones |= {kind} if any(map(_is_one, terms)) else set()
        if any(_is_whole(values, term) for term in terms):
            floats.add(kind)
        elif all(map(_is_one, terms)):
            counts.add(kind)
    return Totals(whole, frozenset(floats), frozenset(counts), frozenset(ones))


def _float_sums(values: Values) -> Iterator[tuple[str, list[_Term]]]:
    """What goes round in a float sum: its kind, and all that is added to it."""
    made_of = {
        register: [s for name, sources in steps if _CARRIES.match(name) for s in sources if s.startswith("%")]
        for register, steps in values.made.items()
    }
    written: dict[str, list[_Written]] = {}
    for name, operands in values.instructions:
        if operands and operands[0].startswith("%"):
            written.setdefault(operands[0], []).append((name, operands[1:]))
    for part in map(set, components(made_of)):
        if len(part) == 1 and part.isdisjoint(made_of.get(next(iter(part)), ())):
            continue
        steps = [step for register in part for step in written.get(register, ())]
        kinds = {found[1] for name, _ in steps if (found := _FLOAT_SUM.match(name))}
        terms = [
            (operand, written.get(operand, []))
            for name, operands in steps
            if _FLOAT_SUM.match(name)
            for operand in operands
            if operand not in part
        ]
        if len(kinds) == 1 and terms:
            yield min(kinds), terms


def _is_whole(values: Values, term: _Term) -> bool:
    """Whether a term is a whole number that was loaded, or a product or sum of such and of nothing else."""
    behind = values.behind(term[0], _WHOLE_STILL)
    made = [(name, sources) for one in behind for name, sources in values.made.get(one, ())]
    turned = {source for name, sources in made if _FROM_WHOLE.match(name) for source in sources}
    if any(_A_FLOAT.match(name) for name, _ in made):
        return False
    return any(base.startswith("@") for source in turned for base in values.origins(source))


def _is_one(term: _Term) -> bool:
    """Whether a term is one, or chosen between one and nothing."""
    operand, steps = term
    if _NUMBER.fullmatch(operand):
        return operand.upper() in _ONES
    return bool(steps) and all(
        name.startswith("selp") and {one.upper() for one in operands[:2]} <= _ONES | _NOUGHTS
        for name, operands in steps
    )
