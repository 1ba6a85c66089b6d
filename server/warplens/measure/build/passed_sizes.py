# SPDX-License-Identifier: Apache-2.0
"""Parameters of the user's host functions that are sizes alone: what is passed for them is a size, too.

As in `void run(float* out, int n, int block) { kernel<<<(n + block - 1) / block, block>>>(out, n); }`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from warplens.measure.build.host_tokens import Declaration
from warplens.measure.build.sizes import Passed, Span, arguments_of, covered, is_size_type, sizes_in

_NAME = re.compile(r"[A-Za-z_]\w*")


def passed_sizes(hosts: Iterable[Declaration], constants: set[str]) -> dict[str, frozenset[int]]:
    """Of the functions that are defined once among `hosts`, which parameters are used for sizes alone."""
    defined: dict[str, list[tuple[Declaration, list[tuple[str, Span]]]]] = {}
    for one in hosts:
        found = _parameters(one.tokens)
        if found is not None:
            defined.setdefault(found[0], []).append((one, found[1]))
    once = {name: both[0] for name, both in defined.items() if len(both) == 1}
    passed: dict[str, frozenset[int]] = {}
    grown = True
    while grown:
        # one more function may pass its own parameter on to one that is known by now
        known = {name: _used_as_sizes(*of, constants, passed) for name, of in once.items()}
        known = {name: places for name, places in known.items() if places}
        grown, passed = known != passed, known
    return passed


def _parameters(tokens: Sequence[str]) -> tuple[str, list[tuple[str, Span]]] | None:
    """A function's name, and its parameters' names and tokens; None for what is no plain function with a body."""
    if not tokens or tokens[-1] != "}" or tokens[0] == "template" or "operator" in tokens:
        return None
    opening = next((i for i, word in enumerate(tokens) if word in ("(", "{", "=")), 0)
    if not opening or tokens[opening] != "(" or not _NAME.fullmatch(tokens[opening - 1]):
        return None
    if opening > 1 and tokens[opening - 2] == "::":
        return None
    found = []
    for start, end in arguments_of(tokens, opening):
        value = next((i for i in range(start, end) if tokens[i] == "="), end)
        name = tokens[value - 1] if _NAME.fullmatch(tokens[value - 1]) else ""
        sized = name and is_size_type(tokens[start : value - 1])
        found.append((name if sized else "", (start, end)))
    return tokens[opening - 1], found


def _used_as_sizes(
    one: Declaration, parameters: Sequence[tuple[str, Span]], constants: set[str], passed: Passed
) -> frozenset[int]:
    tokens = one.tokens
    names = {name for name, _ in parameters if name}
    if not names:
        return frozenset()
    inside = covered(sizes_in(tokens, constants, passed), len(tokens))
    places = set()
    for place, (name, (start, end)) in enumerate(parameters):
        uses = [i for i, word in enumerate(tokens) if word == name and not start <= i < end]
        if name and uses and all(inside[index] for index in uses):
            places.add(place)
    return frozenset(places)
