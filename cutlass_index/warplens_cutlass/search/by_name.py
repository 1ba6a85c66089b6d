"""Ranks definitions for a query that is a name: exact, partial, split or misspelt; and the examples that use it."""

from __future__ import annotations

import math

from warplens_cutlass.search.names import NameMatch, match_names
from warplens_cutlass.search.prior import arch_factor, prior
from warplens_cutlass.search.question import Question
from warplens_cutlass.search.ranked import Ranked, is_example
from warplens_cutlass.search.reader import Reader, SymbolHit
from warplens_cutlass.settings import RankingSettings
from warplens_cutlass.words import normal_name

_EXAMPLES = 3
#: Words up to which a question may be a name that was split and misspelt besides.
_SPLIT = 4


def name_matches(question: Question, reader: Reader, settings: RankingSettings) -> list[NameMatch]:
    """Names the whole query stands for; empty when it reads like prose."""
    tokens = question.text.split()
    if len(tokens) > 5:
        return []
    spelling = (
        question.text.replace(" ", "") if len(tokens) > 1 and "::" not in question.text else question.text
    )
    single = len(tokens) == 1
    matches = match_names(spelling, reader, settings, fuzzy=len(tokens) <= _SPLIT)
    return [m for m in matches if single or m.quality >= settings.split_name_floor]


def rank_names(
    question: Question, matches: list[NameMatch], reader: Reader, settings: RankingSettings
) -> list[Ranked]:
    """Definitions of the matched names, the closest spelling first; with the best examples of the first."""
    quality = {m.name: m for m in matches}
    ranked = [
        Ranked(
            hit,
            _score(hit, quality[hit.name], question, reader, settings),
            _why(quality[hit.name]),
            is_example(hit),
        )
        for hit in reader.symbols_named(quality)
    ]
    if matches:
        ranked += examples_of(matches[0].name, reader, scale=matches[0].quality * settings.example_of_name)
    return ranked


def _score(
    hit: SymbolHit, match: NameMatch, question: Question, reader: Reader, settings: RankingSettings
) -> float:
    likely = prior(hit, reader, settings) * arch_factor(hit.arch, question.arch, settings)
    value = match.quality * settings.name_scale * (0.75 + 0.25 * likely)
    qualified = normal_name(question.text)
    if "::" in question.text and normal_name(hit.qualified_name).endswith(qualified):
        value *= settings.qualified_name
    if likely_file(hit):
        value *= settings.name_of_file
    # Between equals: the documented one, and the plainer file (layout.hpp before layout_composed.hpp).
    return value * (1.01 if hit.doc else 1.0) - 0.0002 * len(hit.path)


def likely_file(hit: SymbolHit) -> bool:
    """Whether the file is named after the definition."""
    stem = normal_name(hit.path.rsplit("/", 1)[-1].split(".", 1)[0])
    return len(stem) > 3 and (stem in normal_name(hit.name) or normal_name(hit.name) in stem)


def _why(match: NameMatch) -> str:
    return "the symbol itself" if match.quality == 1.0 else f"{match.how}: {match.name}"


def examples_of(name: str, reader: Reader, *, scale: float) -> list[Ranked]:
    """Examples that use a name, those that use it often in little code first; at the line of the first use."""
    rows = reader.examples_with(name)
    scored = sorted(rows, key=lambda r: -_telling(str(r[1]), int(str(r[3])), int(str(r[4]))))
    mains = reader.symbols(int(str(r[6])) for r in scored[:_EXAMPLES])
    return [
        Ranked(mains[int(str(r[6]))], scale * 0.92**place, f"uses {name}, first at line {r[2]}", example=True)
        for place, r in enumerate(scored[:_EXAMPLES])
        if int(str(r[6])) in mains
    ]


def _telling(path: str, count: int, size: int) -> float:
    """Uses per size, damped; programs and tutorials before helper headers."""
    program = 1.5 if path.endswith(".cu") else 1.0
    tutorial = 1.4 if "tutorial" in path else 1.0
    return float(program * tutorial * math.sqrt(min(count, 8) / (20_000 + size)))
