"""Ranks what could replace a piece of code: by its PTX operations, by recognised concepts, by names it uses."""

from __future__ import annotations

import functools
import math
import re

from warplens_cutlass.extract.architecture import architectures
from warplens_cutlass.search.by_words import Boosts, boost_concepts
from warplens_cutlass.search.prior import prior
from warplens_cutlass.search.ranked import Ranked, is_example
from warplens_cutlass.search.reader import Reader, SymbolHit
from warplens_cutlass.search.recognise import CodeFacts, Seen
from warplens_cutlass.search.thesaurus import ConceptMatch
from warplens_cutlass.settings import RankingSettings

#: State spaces and modifiers that wrappers spell differently and that do not tell operations apart.
_PTX_NEUTRAL = frozenset(
    ("sync", "aligned", "volatile", "cta", "b64", "b32", "u32", "release", "relaxed", "acquire")
)

#: Loads, stores and arithmetic, which many wrappers hold beside what they are for.
_PTX_PLAIN = frozenset("ld st add sub mul mad fma and or xor shl shr cvt min max neg".split())  # noqa: SIM905


def rank_code(
    facts: CodeFacts, reader: Reader, settings: RankingSettings, arch: frozenset[str]
) -> list[Ranked]:
    """All candidates with their scores, unordered. Scores are in the units of `rank_words`."""
    boosts = Boosts(settings.further_concept)
    _boost_ptx(boosts, facts.ptx, reader, settings)
    boost_concepts(
        boosts, _matches(facts.seen, settings), reader, settings, arch, scale=settings.concept_in_code
    )
    _boost_known(boosts, facts, reader, settings)
    mains = _mains(boosts, reader)
    ranked = [Ranked(hit, *boosts.symbols[i], example=is_example(hit)) for i, hit in boosts.hits.items()]
    for file_id, hit in mains.items():
        value, why = boosts.files[file_id]
        ranked.append(Ranked(hit, value, why, example=True))
    return _together(ranked, facts, reader, settings)


def _matches(seen: tuple[Seen, ...], settings: RankingSettings) -> list[ConceptMatch]:
    """Concepts with their weight as share: the most telling counts fully, others by how telling they are."""
    if not seen:
        return []
    best = seen[0].concept.weight
    return [ConceptMatch(s.concept, (s.concept.weight / best) ** settings.code_power) for s in seen]


def _boost_ptx(
    boosts: Boosts, operations: tuple[str, ...], reader: Reader, settings: RankingSettings
) -> None:
    for place, operation in enumerate(operations[:12]):
        for hit, share in ptx_definitions(operation, reader, settings):
            plain = settings.ptx_plain if operation.split(".", 1)[0] in _PTX_PLAIN else 1.0
            value = settings.ptx * share * plain * settings.ptx_decay**place
            boosts.symbol(hit, value, f"wraps {operation.split('.')[0]}: {operation}"[:120])


def ptx_definitions(
    operation: str, reader: Reader, settings: RankingSettings
) -> list[tuple[SymbolHit, float]]:
    """Definitions whose assembly has this operation: (definition, likeness 0 to 1), best first."""
    root = operation.split(".", 1)[0]
    rows = reader.rows(
        "SELECT operation, symbol_id FROM ptx WHERE operation >= ? AND operation < ?",
        (root + ".", root + "/"),
    )
    shares: dict[int, float] = {}
    for other, key in rows:
        likeness = _likeness(operation, str(other), settings.ptx_floor)
        if likeness >= settings.ptx_floor:
            shares[int(str(key))] = max(likeness, shares.get(int(str(key)), 0.0))
    if not shares:
        return []
    top = sorted(shares, key=lambda k: -shares[k])[:120]
    hits = reader.symbols(top)
    scored = [
        (hits[k], shares[k] ** 2 * (0.7 + 0.3 * min(prior(hits[k], reader, settings), 1.2)))
        for k in top
        if k in hits
    ]
    best = max(share for _, share in scored)
    return [(hit, share / best) for hit, share in sorted(scored, key=lambda pair: -pair[1])[:4]]


@functools.lru_cache(maxsize=16384)
def _parts(operation: str) -> tuple[frozenset[str], float]:
    """The qualifiers of an operation and their weight; what tells nothing counts a fifth."""
    parts = frozenset(re.split(r"\.|::", operation))
    return parts, _weigh(parts)


def _weigh(parts: frozenset[str]) -> float:
    return len(parts) - 0.8 * len(parts & _PTX_NEUTRAL)


def _likeness(wanted: str, other: str, floor: float) -> float:
    """Weighted overlap of the qualifiers of two operations; 0 where it cannot reach `floor`."""
    (a, weight_a), (b, weight_b) = _parts(wanted), _parts(other)
    if min(weight_a, weight_b) < floor * max(weight_a, weight_b):
        return 0.0
    shared = _weigh(a & b)
    return shared / max(weight_a + weight_b - shared, 0.1)


def _boost_known(boosts: Boosts, facts: CodeFacts, reader: Reader, settings: RankingSettings) -> None:
    """Names of the corpus that the code already uses: rare ones point to their neighbourhood."""
    distinctive = [n for n in facts.identifiers if re.search(r"[a-z][A-Z]|_", n)][:200]
    if not distinctive:
        return
    for hit in reader.symbols_named(distinctive, limit=600):
        if hit.member or hit.role in ("tool", "test") or hit.kind in ("variable", "macro", "enumerator"):
            continue
        rare = 1 / math.log2(4 + reader.uses(hit.name))
        value = settings.known_name * prior(hit, reader, settings) * (0.5 + rare)
        boosts.symbol(hit, value, f"the code uses {hit.name}")


def _mains(boosts: Boosts, reader: Reader) -> dict[int, SymbolHit]:
    wanted = ",".join(map(str, boosts.files))
    rows = reader.rows(f"SELECT id, main_symbol FROM files WHERE id IN ({wanted}) AND main_symbol > 0")
    hits = reader.symbols(int(str(row[1])) for row in rows)
    return {int(str(i)): hits[int(str(m))] for i, m in rows if int(str(m)) in hits}


def _together(
    ranked: list[Ranked], facts: CodeFacts, reader: Reader, settings: RankingSettings
) -> list[Ranked]:
    """An example gains from every further recognised concept whose symbols it uses."""
    examples = {r.hit.file_id for r in ranked if r.example}
    if not examples or len(facts.seen) < 2:
        return ranked
    marks = ",".join(map(str, examples))
    covered: dict[int, float] = {}
    for seen in facts.seen[:8]:
        names = ",".join("?" * len(seen.concept.symbols))
        sql = (
            f"SELECT DISTINCT file_id FROM mentions WHERE file_id IN ({marks}) AND name_id IN "
            f"(SELECT id FROM names WHERE name IN ({names}))"
        )
        for (file_id,) in reader.rows(sql, seen.concept.symbols):
            key = int(str(file_id))
            covered[key] = covered.get(key, 0.0) + seen.concept.weight
    total = sum(s.concept.weight for s in facts.seen[:8])
    return [
        Ranked(
            r.hit,
            r.score * (1 + settings.together * covered.get(r.hit.file_id, 0.0) / total),
            r.why,
            r.example,
        )
        if r.example
        else r
        for r in ranked
    ]


def code_architectures(code: str) -> frozenset[str]:
    """Architectures that the code itself names."""
    return frozenset(architectures(code))
