# SPDX-License-Identifier: Apache-2.0
"""Ranks definitions for a query that is a name: exact, partial, split or misspelt; and the examples that use it."""

from __future__ import annotations

from collections.abc import Sequence

from warplens_cutlass.index_settings import RankingWeights
from warplens_cutlass.search.examples import examples_of
from warplens_cutlass.search.names import NameMatch, match_names
from warplens_cutlass.search.prior import prior
from warplens_cutlass.search.ranked import Ranked, is_example
from warplens_cutlass.search.reader import Reader, SymbolHit
from warplens_cutlass.words import normal_name

#: Words up to which a question may be a name that was split, and one that was misspelt besides.
_SPLIT, _MISSPELT = 5, 4
#: How close a name must be that is split over several words.
_SPLIT_FLOOR = 0.78
#: From this closeness on a query is taken for a name alone: of several words, and of one, which is likelier a name.
_SURE, _SURE_WORD = 0.9, 0.68


def name_matches(text: str, reader: Reader) -> list[NameMatch]:
    """Names the whole query stands for; empty when it reads like prose."""
    tokens = text.split()
    if len(tokens) > _SPLIT:
        return []
    spelling = text.replace(" ", "") if len(tokens) > 1 and "::" not in text else text
    matches = match_names(spelling, reader, fuzzy=len(tokens) <= _MISSPELT)
    return [m for m in matches if len(tokens) == 1 or m.quality >= _SPLIT_FLOOR]


def is_surely_a_name(text: str, matches: Sequence[NameMatch]) -> bool:
    """Whether the query is the best of these names rather than words."""
    return bool(matches) and matches[0].quality >= (_SURE_WORD if len(text.split()) == 1 else _SURE)


def rank_names(text: str, matches: list[NameMatch], reader: Reader, weights: RankingWeights) -> list[Ranked]:
    """Definitions of the matched names, the closest spelling first; with the best examples of the first."""
    quality = {m.name: m for m in matches}
    ranked = [
        Ranked(hit, _score(hit, quality[hit.name], text, weights), _why(quality[hit.name]), is_example(hit))
        for hit in reader.symbols_named(quality)
    ]
    if matches:
        ranked += examples_of(matches[0].name, reader, scale=matches[0].quality)
    return ranked


def _score(hit: SymbolHit, match: NameMatch, text: str, weights: RankingWeights) -> float:
    """By spelling first; between equals by how likely a definition is meant."""
    value = match.quality * weights.name * (0.75 + 0.25 * prior(hit, weights))
    if "::" in text and normal_name(hit.qualified_name).endswith(normal_name(text)):
        value *= 1.25
    # Then the documented one, the file of that name, the plainer path (layout.hpp before layout_composed.hpp).
    value *= (1.01 if hit.doc else 1.0) * (1.04 if likely_file(hit) else 1.0)
    return value - 0.0002 * len(hit.path)


def likely_file(hit: SymbolHit) -> bool:
    """Whether the file is named after the definition."""
    stem = normal_name(hit.path.rsplit("/", 1)[-1].split(".", 1)[0])
    return len(stem) > 3 and (stem in normal_name(hit.name) or normal_name(hit.name) in stem)


def _why(match: NameMatch) -> str:
    return "the symbol itself" if match.quality == 1.0 else f"{match.how}: {match.name}"
