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


#: Least share of a phrase's words that the question must hold, and least number where it lacks one.
_PHRASE_FLOOR = 0.7


@functools.cache
def _phrases() -> tuple[tuple[Concept, frozenset[str]], ...]:
    return tuple((c, frozenset(query_words(p))) for c in CONCEPTS for p in c.phrases)


def concepts_in(question: Question) -> list[ConceptMatch]:
    """Concepts with a phrase that the question holds (all of its words, or most), best first."""
    groups = {
        word: {word} | {s[0] for s in synonyms().get(word, ()) if len(s) == 1} for word in question.words
    }
    present = set().union(*groups.values())
    weights = {term.spellings[0][0]: term.weight for term in question.terms if len(term.spellings[0]) == 1}
    best: dict[str, ConceptMatch] = {}
    for concept, phrase in _phrases():
        held = len(phrase & present) / max(len(phrase), 1)
        if held < 1 and (held < _PHRASE_FLOOR or len(phrase) < 3):
            continue
        covered = sum(weights.get(word, 0.0) for word, group in groups.items() if group & phrase)
        share = min(covered, 1.0) * held**2
        old = best.get(concept.does)
        if share and (old is None or share > old.share):
            best[concept.does] = ConceptMatch(concept, share)
    return sorted(best.values(), key=lambda m: -m.share)[:8]
