# SPDX-License-Identifier: Apache-2.0
"""Ranks what could replace a piece of code: by its PTX operations, and by what it says of itself and calls."""

from __future__ import annotations

import functools
import re

import msgspec

from warplens_cutlass.index_settings import RankingWeights
from warplens_cutlass.search.by_words import rank_words
from warplens_cutlass.search.code_facts import CodeFacts
from warplens_cutlass.search.prior import prior
from warplens_cutlass.search.question import parse_query
from warplens_cutlass.search.ranked import Ranked, is_example
from warplens_cutlass.search.reader import Reader, SymbolHit
from warplens_cutlass.search.thesaurus import ConceptMatch, concepts_in

#: State spaces and modifiers that wrappers spell differently and that do not tell operations apart.
_NEUTRAL = frozenset(
    ("sync", "aligned", "volatile", "cta", "b64", "b32", "u32", "release", "relaxed", "acquire")
)
#: Loads, stores and arithmetic, which many wrappers hold beside what they are for.
_PLAIN = frozenset("ld st add sub mul mad fma and or xor shl shr cvt min max neg".split())  # noqa: SIM905
_OPERATIONS, _WRAPPERS, _TAKEN = 12, 4, 12
#: Least likeness of two operations.
_ALIKE = 0.45
#: Share of a called name's words that a concept must hold to be what the name does.
_SURE = 0.6


def rank_code(facts: CodeFacts, query: str, reader: Reader, weights: RankingWeights) -> list[Ranked]:
    """All candidates with their scores, unordered; `query` is what was asked beside the code."""
    ranked = _wrappers(facts.ptx, reader, weights)
    for text in (query, spoken(facts)):
        question = parse_query(text, reader)
        if question.terms:
            ranked = _summed(ranked, rank_words(question, reader, weights))
    return ranked


def spoken(facts: CodeFacts) -> str:
    """The code as a question: what it calls, then what it says of itself."""
    names = [re.sub(r"[_.:]+", " ", name) for name, _ in facts.taken[:_TAKEN]]
    return " ".join([*names, facts.prose])


def recognised(facts: CodeFacts, reader: Reader) -> tuple[str, ...]:
    """What the names it calls do, for people: "loads matrix fragments with ldmatrix (line 3)"."""
    found: dict[str, int] = {}
    for name, line in facts.taken[:_TAKEN]:
        match = _what_it_does(name, reader)
        if match is not None:
            found.setdefault(match.does, line)
    return tuple(f"{does} (line {line})" for does, line in found.items())


def _what_it_does(name: str, reader: Reader) -> ConceptMatch | None:
    parts = [p for p in re.split(r"[_.]+", name.split("::")[-1]) if p and p not in _NEUTRAL]
    question = parse_query(" ".join(parts[:2]), reader)
    best = next(iter(concepts_in(question, reader)), None)
    return best if best is not None and best.share >= _SURE else None


def _wrappers(operations: tuple[str, ...], reader: Reader, weights: RankingWeights) -> list[Ranked]:
    best: dict[int, Ranked] = {}
    for operation in operations[:_OPERATIONS]:
        plain = 0.5 if operation.split(".", 1)[0] in _PLAIN else 1.0
        why = f"wraps {operation.split('.')[0]}: {operation}"[:120]
        for hit, share in ptx_definitions(operation, reader, weights):
            value = share * plain
            if hit.id not in best or value > best[hit.id].score:
                best[hit.id] = Ranked(hit, value, why, is_example(hit))
    return list(best.values())


def ptx_definitions(operation: str, reader: Reader, weights: RankingWeights) -> list[tuple[SymbolHit, float]]:
    """Definitions whose assembly has this operation: (definition, likeness 0 to 1), best first."""
    root = operation.split(".", 1)[0]
    rows = reader.rows(
        "SELECT operation, symbol_id FROM ptx WHERE operation >= ? AND operation < ?",
        (root + ".", root + "/"),
    )
    shares: dict[int, float] = {}
    for other, key in rows:
        likeness = _likeness(operation, str(other))
        if likeness >= _ALIKE:
            shares[int(str(key))] = max(likeness, shares.get(int(str(key)), 0.0))
    hits = reader.symbols(sorted(shares, key=lambda k: -shares[k])[:120])
    scored = [(hit, shares[k] ** 2 * (0.7 + 0.3 * prior(hit, weights))) for k, hit in hits.items()]
    best = max((share for _, share in scored), default=1.0)
    return [(hit, share / best) for hit, share in sorted(scored, key=lambda pair: -pair[1])[:_WRAPPERS]]


@functools.lru_cache(maxsize=16384)
def _parts(operation: str) -> tuple[frozenset[str], float]:
    """The qualifiers of an operation and their weight; what tells nothing counts a fifth."""
    parts = frozenset(re.split(r"\.|::", operation))
    return parts, _weigh(parts)


def _weigh(parts: frozenset[str]) -> float:
    return len(parts) - 0.8 * len(parts & _NEUTRAL)


def _likeness(wanted: str, other: str) -> float:
    """Weighted overlap of the qualifiers of two operations; 0 where it cannot reach `_ALIKE`."""
    (a, weight_a), (b, weight_b) = _parts(wanted), _parts(other)
    if min(weight_a, weight_b) < _ALIKE * max(weight_a, weight_b):
        return 0.0
    shared = _weigh(a & b)
    return shared / max(weight_a + weight_b - shared, 0.1)


def _summed(first: list[Ranked], second: list[Ranked]) -> list[Ranked]:
    """Both lists; what stands in both gets the sum."""
    extra = {r.hit.id: r.score for r in second}
    joined = [msgspec.structs.replace(r, score=r.score + extra.get(r.hit.id, 0.0)) for r in first]
    known = {r.hit.id for r in first}
    return [*joined, *(r for r in second if r.hit.id not in known)]
