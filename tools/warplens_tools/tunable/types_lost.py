# SPDX-License-Identifier: Apache-2.0
"""What a template works out of the type that it is made for, and an edit writes as a number for all of them:
`Accuracy<T>::step`, `numeric_limits<T>::max()`, and what is named after them.

A number that is right for the type that a run launches says nothing of the others. What is asked of the type in another
way, as by the bits that it has, is asked all the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from warplens_tools.tunable.by_type import type_parameters
from warplens_tools.tunable.conditions import DeviceCode
from warplens_tools.tunable.source import File

_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"(?<![\w.])(?:0[xX][\da-fA-F']+|\d[\d'.]*(?:[eE][+-]?\d+)?)[uUlLfF]*(?![\w.])")
#: Numbers that any text has.
_PLAIN = frozenset({"0", "1", "2"})
#: White space around what is no word.
_SPACE = re.compile(r"\s+(?=[^\w\s])|(?<=[^\w\s])\s+")
_CONSTANT = re.compile(r"\bconst(?:expr)?\b[^;=(){}]*?\b(\w+)[={]([^;]*);")


def why_types_lost(before: File, after: File, kernel: str) -> str:
    """What an edited kernel no longer asks of the type that it is made for, as it is written; "" for nothing."""
    codes = DeviceCode(before, kernel), DeviceCode(after, kernel)
    old, new = (Counter(_asked(code)) for code in codes)
    lost = {what: many for what, many in old.items() if new[what] < many}
    # what is asked of the type in another way may be the same
    if not lost or set(new) - set(old):
        return ""
    what = min(lost, key=lambda one: (new[one], one))
    return what if not new[what] or _numbers(codes[1]) - _numbers(codes[0]) else ""


def _asked(code: DeviceCode) -> Iterator[str]:
    """Each use of something that is worked out of a type, by what that is."""
    for function in code.functions:
        types = type_parameters(code, function)
        if types:
            yield from _uses(_SPACE.sub("", code.tree.code_of(function.body)), types)


def _uses(text: str, types: frozenset[str]) -> Iterator[str]:
    of_types = "|".join(map(re.escape, sorted(types)))
    traits = re.compile(rf"(?:\w+::)*\w+<[^<>;]*\b(?:{of_types})\b[^<>;]*>::\w+|\bsizeof\((?:{of_types})\)")
    named: dict[str, str] = {}
    for found in _CONSTANT.finditer(text):
        held = traits.search(found[2])
        what = held[0] if held else next((named[n] for n in _NAME.findall(found[2]) if n in named), "")
        if what:
            named[found[1]] = what
    # a constant's own declaration is no use of what it is named after
    rest = _CONSTANT.sub(lambda found: "" if found[1] in named else found[0], text)
    yield from (found[0] for found in traits.finditer(rest))
    yield from (named[name] for name in _NAME.findall(rest) if name in named)


def _numbers(code: DeviceCode) -> set[str]:
    return {one for f in code.functions for one in _NUMBER.findall(code.tree.code_of(f.body))} - _PLAIN
