# SPDX-License-Identifier: Apache-2.0
"""Records among the words of a plain array, by PTX: behind a pointer a kernel stores so many words side by side, and
begins at no other places, as `pairs[2 * at]` and `pairs[2 * at + 1]` do in an array of integers.

Where the order of records is not determined, their words belong together all the same.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from warplens_tools.toolchain.ptx_flow import Flow, by_kernel

_STORE = re.compile(
    r"\bst(?:\.\w+)*\.global(?:\.\w+)*\.[busf](8|16|32|64)\s+\[(%rd\d+)(?:\+(-?\d+))?\]\s*,\s*([^;]+);"
)
#: Records of more words are none that somebody writes out.
_MOST_WORDS = 8
_TIMES = ("mul.wide", "mul.lo", "shl.")


class _Store(NamedTuple):
    root: str
    at: int
    width: int


# each visit of a kernel asks
@functools.lru_cache(maxsize=8)
def records_in(ptx: str) -> Mapping[str, Mapping[int, int]]:
    """Of each kernel of a unit, by the name that it has whatever the unit: the bytes of the records that it stores
    behind a parameter, by the parameter's number."""
    return by_kernel(ptx, _of)


def _of(flow: Flow) -> dict[int, int]:
    stores: dict[str, list[_Store]] = {}
    for bits, place, behind, values in _STORE.findall(flow.body):
        root, at = flow.begins(place)
        single = values.count("%") == 1 or "{" not in values
        for base in flow.bases(place):
            width = int(bits) // 8 if single else 0
            stores.setdefault(base, []).append(_Store(root, at + int(behind or 0), width))
    others = {
        base
        for name, place in flow.accessed
        if name.startswith(("atom", "red"))
        for base in flow.bases(place)
    }
    found = {int(base): _bytes(flow, ones) for base, ones in stores.items() if base not in others}
    return {parameter: size for parameter, size in found.items() if size}


def _bytes(flow: Flow, stores: list[_Store]) -> int:
    """Of a record, where all these stores make up such; 0 where they do not."""
    by_root: dict[str, set[int]] = {}
    for store in stores:
        by_root.setdefault(store.root, set()).add(store.at)
    widths = {store.width for store in stores}
    width = widths.pop() if len(widths) == 1 else 0
    words = {frozenset(places) for places in by_root.values()}
    if not width or len(words) != 1:
        return 0
    (places,) = words
    whole = 1 < len(places) <= _MOST_WORDS and places == {width * k for k in range(len(places))}
    size = width * len(places)
    return size if whole and all(_stride(flow, root) == size for root in by_root) else 0


def _stride(flow: Flow, root: str) -> int:
    """What a record's number is multiplied by; 0 where that is not plain to see."""
    steps = flow.steps.get(root, ())
    if len(steps) != 1 or not steps[0].name.startswith("add.s64"):
        return 0
    factors = {_factor(flow, source) for source in steps[0].sources} - {1}
    return factors.pop() if len(factors) == 1 else 0


def _factor(flow: Flow, register: str) -> int:
    """The constant that a number is a multiple of by the way that it is worked out."""
    factor = 1
    while len(steps := flow.steps.get(register, [])) == 1:
        step = steps[0]
        if step.name.startswith(_TIMES) and step.number > 0:
            factor *= step.number
        elif not step.name.startswith(("cvt.s64", "cvt.u64", "mov.")):
            break
        register = next((source for source in step.sources if source.startswith("%")), "")
    return factor
