# SPDX-License-Identifier: Apache-2.0
"""Which tests `make test` runs, and which it leaves to `make test-all`: CONTRIBUTING.md says by what rule.

A test is left if it is marked `thorough`. Of a parametrised test marked `sampled(count)` so many cases are kept, spread
over all that there are, and the others left; of one marked `sampled(of=NAMES)` those whose ids are named. So every
subject has its quick tests, whatever is added to its list.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")


def spread(cases: Sequence[T], count: int) -> list[T]:
    """So many of them, the first among them, at even distances; all if there are no more."""
    if count >= len(cases):
        return list(cases)
    return [cases[number * len(cases) // count] for number in range(count)]


def mark_tiers(items: Iterable[pytest.Item], share: str = "") -> None:
    """Marks what is left of sampled tests as `thorough`, and of all that is so the share "K/N" as `in_share`.

    Raises:
        pytest.UsageError: the share is none.
    """
    everything = list(items)
    functions: dict[str, list[pytest.Item]] = {}
    for item in everything:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("thorough"):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in functions.values():
        quick = _quick(cases)
        for item in cases:
            if item not in quick:
                item.add_marker(pytest.mark.thorough)
    if share:
        number, of = _share(share)
        for item in everything:
            if item.get_closest_marker("thorough") and zlib.crc32(item.nodeid.encode()) % of == number:
                item.add_marker(pytest.mark.in_share)


def _quick(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Those of one function's that stay."""
    mark = cases[0].get_closest_marker("sampled")
    assert mark is not None
    if mark.args:
        return spread(cases, *mark.args)
    return [item for item in cases if item.nodeid.partition("[")[2].removesuffix("]") in mark.kwargs["of"]]


def _share(words: str) -> tuple[int, int]:
    """(K, N) of "K/N"."""
    found = re.fullmatch(r"(\d+)/([1-9]\d*)", words)
    if found is None or int(found[1]) >= int(found[2]):
        raise pytest.UsageError(f"--share takes K/N with K from 0 to N - 1, not {words}")
    return int(found[1]), int(found[2])
