"""A scored definition, and how a list of them becomes an answer: no crowding, definition and example in view."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import msgspec

from warplens_cutlass.search.reader import SymbolHit
from warplens_cutlass.settings import RankingSettings


class Ranked(msgspec.Struct, frozen=True):
    """One candidate answer. `why` is one line."""

    hit: SymbolHit
    score: float
    why: str
    #: Shown as an example of use rather than for what it defines.
    example: bool = False


def spread(ranked: Iterable[Ranked], limit: int, settings: RankingSettings) -> list[Ranked]:
    """Take the best again and again; each further result of one file or example folder counts less."""
    pool = sorted(ranked, key=lambda r: -r.score)[: limit * 6]
    heap = [(-r.score, place) for place, r in enumerate(pool)]
    chosen: list[Ranked] = []
    files: dict[str, int] = {}
    folders: dict[str, int] = {}
    names: dict[str, int] = {}
    while heap and len(chosen) < limit:
        # Crowding only grows: what stays ahead of the next one's former worth is the best.
        place = heap[0][1]
        best = pool[place]
        worth = best.score * _crowding(best, files, folders, names, settings)
        heapq.heapreplace(heap, (-worth, place))
        if heap[0] != (-worth, place):
            continue
        heapq.heappop(heap)
        chosen.append(best)
        files[best.hit.path] = files.get(best.hit.path, 0) + 1
        folder = example_folder(best.hit)
        folders[folder] = folders.get(folder, 0) + 1
        names[best.hit.qualified_name] = names.get(best.hit.qualified_name, 0) + 1
    return chosen


def definition_then_example(chosen: list[Ranked], floor: float) -> list[Ranked]:
    """The best definition first, the best example second, the rest in order.

    A definition that scores below `floor` of the best stays where it is.
    """
    definition = next((r for r in chosen if not r.example), None)
    example = next((r for r in chosen if r.example), None)
    if definition is None or example is None or definition.score < floor * chosen[0].score:
        return chosen
    return [definition, example, *(r for r in chosen if r is not definition and r is not example)]


def is_example(hit: SymbolHit) -> bool:
    """Whether a definition stands in a program that shows something, not in a header of one."""
    return hit.role == "example" and hit.path.endswith((".cu", ".cpp", ".cc"))


def example_folder(hit: SymbolHit) -> str:
    """The folder of one example; "" elsewhere."""
    return hit.path.rsplit("/", 1)[0] if hit.role == "example" else ""


def _crowding(
    r: Ranked,
    files: dict[str, int],
    folders: dict[str, int],
    names: dict[str, int],
    settings: RankingSettings,
) -> float:
    factor = settings.same_file ** files.get(r.hit.path, 0)
    folder = example_folder(r.hit)
    if folder and not files.get(r.hit.path):
        factor *= settings.same_folder ** folders.get(folder, 0)
    return factor * settings.same_name ** names.get(r.hit.qualified_name, 0)
