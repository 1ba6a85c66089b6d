# SPDX-License-Identifier: Apache-2.0
"""How often loops run at most, as far as the text tells: few iterations are not worth dealing out."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from tree_sitter import Node

from warplens_tools.cuda.values.form_reader import FormReader
from warplens_tools.cuda.values.forms import Form, subtract
from warplens_tools.rewrite.common.counting import LOOPS, Counting


class Length(msgspec.Struct, frozen=True):
    """How often a loop runs at most; None where nothing tells."""

    most: int | None = None
    #: It follows the number of an iteration of a loop around it, as in a triangle, and is shorter on the average.
    grows: bool = False
    #: It goes as far to one side as to the other: a window, which is short as a rule.
    window: bool = False


def length_of(forms: FormReader, loop: Counting, given: Mapping[str, int]) -> Length:
    """The length of a loop. `given`: values of the template's parameters that all launches give it."""
    known = forms.loop(loop.node)
    if known.trips is not None:
        return Length(known.trips)
    first = known.first
    if first is None or loop.downward or not loop.bounds:
        return Length()
    window = any(_is_negative_of(first, forms.form(bound)) for bound in loop.bounds)
    around = {**_ranges_around(forms, loop.node), **{name: (value, value) for name, value in given.items()}}
    inclusive = 1 if "<=" in (known.comparison or "") else 0
    found = [_between(first, forms.form(bound), around) for bound in loop.bounds]
    counts = [(most + inclusive, grows) for most, grows in (f for f in found if f is not None)]
    most, grows = min(counts, default=(None, False))
    return Length(None if most is None else max(most, 0), grows, window)


def _between(
    first: Form, bound: Form | None, ranges: Mapping[str, tuple[int, int]]
) -> tuple[int, bool] | None:
    """The largest distance of a bound from the first value, and whether it changes with a loop around."""
    apart = subtract(bound, first) if bound is not None else None
    if apart is None:
        return None
    total, grows = 0, False
    for symbols, factor in apart.terms:
        if len(symbols) > 1 or any(s.name not in ranges for s in symbols):
            return None
        for symbol in symbols:
            low, high = ranges[symbol.name]
            factor *= high if factor > 0 else low
            grows = grows or low != high
        total += factor
    return total, grows


def _ranges_around(forms: FormReader, node: Node) -> dict[str, tuple[int, int]]:
    """By counter, the least and the greatest value in the loops around whose length is constant."""
    found: dict[str, tuple[int, int]] = {}
    outer = node.parent
    while outer is not None:
        loop = forms.loop(outer) if outer.type in LOOPS else None
        first = loop.first.value if loop is not None and loop.first is not None else None
        step = loop.step.value if loop is not None and loop.step is not None else None
        if (
            loop is not None
            and loop.trips is not None
            and loop.counter
            and first is not None
            and step is not None
        ):
            ends = (first, first + (loop.trips - 1) * step)
            found[loop.counter] = (min(ends), max(ends))
        outer = outer.parent
    return found


def _is_negative_of(first: Form, bound: Form | None) -> bool:
    terms = {symbols: -factor for symbols, factor in first.terms}
    return bound is not None and bool(terms) and terms == dict(bound.terms)
