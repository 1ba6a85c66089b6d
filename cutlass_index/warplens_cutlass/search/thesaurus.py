"""Which concepts a question speaks of, and which symbols and examples they bring in."""

from __future__ import annotations

import functools

import msgspec

from warplens_cutlass.concepts import CONCEPTS, Concept
from warplens_cutlass.search.question import Question
from warplens_cutlass.vocabulary import query_words, synonyms


class ConceptMatch(msgspec.Struct, frozen=True):
    """A concept the query speaks of. `share` is how much of the query's meaning the phrase covers, 0 to 1."""

    concept: Concept
    share: float


@functools.cache
def _phrases() -> tuple[tuple[Concept, frozenset[str]], ...]:
    return tuple((c, frozenset(query_words(p))) for c in CONCEPTS for p in c.phrases)


def concepts_in(question: Question) -> list[ConceptMatch]:
    """Concepts with a phrase whose words are all in the question (or a synonym is), best first."""
    weights = {term.spellings[0]: term.weight for term in question.terms}
    present = set(question.words)
    for word in question.words:
        present |= {s[0] for s in synonyms().get(word, ()) if len(s) == 1}
    best: dict[str, ConceptMatch] = {}
    for concept, phrase in _phrases():
        if not phrase or not phrase <= present:
            continue
        covered = _covered(phrase, question, weights)
        old = best.get(concept.does)
        if old is None or covered > old.share:
            best[concept.does] = ConceptMatch(concept, covered)
    return sorted(best.values(), key=lambda m: -m.share)[:6]


def _covered(phrase: frozenset[str], question: Question, weights: dict[tuple[str, ...], float]) -> float:
    """Share of the question's weight whose word (or a synonym) is in the phrase."""
    total = 0.0
    for word in question.words:
        same = {word} | {s[0] for s in synonyms().get(word, ()) if len(s) == 1}
        if same & phrase:
            total += weights.get((word,), 0.0)
    return min(total, 1.0)
