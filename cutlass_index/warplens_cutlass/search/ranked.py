# SPDX-License-Identifier: Apache-2.0
"""A scored definition, and how a list of them becomes an answer: no crowding, definition and example in view."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable

import msgspec

from warplens_cutlass.search.reader import SymbolHit

#: Share of the best score from which on a definition leads.
_LEADS = 0.5


class Ranked(msgspec.Struct, frozen=True):
    """One candidate answer. `why` is one line."""

    hit: SymbolHit
    score: float
    why: str
    #: Shown as an example of use rather than for what it defines.
    example: bool = False


def diversify(ranked: Iterable[Ranked], limit: int, crowding: float) -> list[Ranked]:
    """Take the best again and again; each further result of one file or of one name keeps `crowding` of its score."""
    pool = sorted(ranked, key=lambda r: -r.score)[: limit * 6]
    heap = [(-r.score, place) for place, r in enumerate(pool)]
    chosen: list[Ranked] = []
    seen: Counter[str] = Counter()
    while heap and len(chosen) < limit:
        # Crowding only grows: what stays ahead of the next one's former worth is the best.
        place = heap[0][1]
        best = pool[place]
        worth = best.score * crowding ** max(seen[best.hit.path], seen[best.hit.qualified_name])
        heapq.heapreplace(heap, (-worth, place))
        if heap[0] != (-worth, place):
            continue
        heapq.heappop(heap)
        chosen.append(best)
        seen.update((best.hit.path, best.hit.qualified_name))
    return chosen


def definition_then_example(chosen: list[Ranked]) -> list[Ranked]:
    """The best definition first, the best example second, the rest in order.

    A definition that scores below half of the best stays where it is.
    """
    definition = next((r for r in chosen if not r.example), None)
    example = next((r for r in chosen if r.example), None)
    if definition is None or example is None or definition.score < _LEADS * chosen[0].score:
        return chosen
    return [definition, example, *(r for r in chosen if r is not definition and r is not example)]


def is_example(hit: SymbolHit) -> bool:
    """Whether a definition stands in a program that shows something, not in a header of one."""
    return hit.role == "example" and hit.path.endswith((".cu", ".cpp", ".cc"))
