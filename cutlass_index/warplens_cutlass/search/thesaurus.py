"""Which concepts a question speaks of, and which symbols and examples they bring in.

A concept is a small document: its phrases, its further words, what it does, and (less telling) the words of
its symbols. A question is matched against these documents softly: each of its words counts by how few
concepts speak of it, so that *measure milliseconds with events* finds what is filed under *time a kernel*.
A phrase that the question holds whole counts by the share of the question that it covers.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from warplens_cutlass.concepts import CONCEPTS, Concept
from warplens_cutlass.search.question import Question
from warplens_cutlass.settings import RankingSettings
from warplens_cutlass.vocabulary import query_words, synonyms


class ConceptMatch(msgspec.Struct, frozen=True):
    """A concept that a question or code speaks of. `share` is what it counts, 0 to 1: for a question the share
    of its meaning that the concept covers, sharpened by `RankingSettings.concept_power`.
    """

    concept: Concept
    share: float


class _Thesaurus(msgspec.Struct, frozen=True):
    """The concepts, turned around."""

    #: Word → concepts that speak of it (their places in `CONCEPTS`).
    speaking: Mapping[str, frozenset[int]]
    #: The same for the words of their symbols' names.
    naming: Mapping[str, frozenset[int]]
    #: (concept, words) of every phrase, and word → phrases that hold it.
    phrases: tuple[tuple[int, frozenset[str]], ...]
    holding: Mapping[str, frozenset[int]]
    #: Words of each concept, relative to the mean.
    lengths: tuple[float, ...]


#: Least share of a phrase's words that the question must hold, and least number where it lacks one.
_PHRASE_FLOOR = 0.7
_MOST = 8


@functools.cache
def _thesaurus() -> _Thesaurus:
    phrases = [(i, frozenset(query_words(p))) for i, c in enumerate(CONCEPTS) for p in c.phrases]
    own = [set(query_words(f"{c.does} {c.words}")) for c in CONCEPTS]
    for i, words in phrases:
        own[i] |= words
    names = [set(query_words(" ".join(c.symbols))) for c in CONCEPTS]
    mean = sum(map(len, own)) / len(own)
    return _Thesaurus(
        speaking=_inverted(own),
        naming=_inverted(names),
        phrases=tuple(phrases),
        holding=_inverted(words for _, words in phrases),
        lengths=tuple(len(words) / mean for words in own),
    )


def _inverted(bags: Iterable[Iterable[str]]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for i, words in enumerate(bags):
        for word in words:
            found.setdefault(word, set()).add(i)
    return {word: frozenset(places) for word, places in found.items()}


def concepts_in(question: Question, settings: RankingSettings) -> list[ConceptMatch]:
    """Concepts that the question speaks of, best first, at most eight."""
    groups = {
        word: {word: 1.0} | {s[0]: settings.synonym_weight for s in synonyms().get(word, ()) if len(s) == 1}
        for word in question.words
    }
    shares = _soft_shares(groups, settings)
    for i, share in _phrase_shares(groups, question):
        shares[i] = max(shares.get(i, 0.0), share)
    best = heapq.nlargest(_MOST, shares.items(), key=lambda pair: pair[1])
    power = settings.concept_power
    return [ConceptMatch(CONCEPTS[i], share**power) for i, share in best if share > settings.concept_floor]


def _soft_shares(groups: Mapping[str, Mapping[str, float]], settings: RankingSettings) -> dict[int, float]:
    """For each concept, the share of the question's weight that it speaks of."""
    thesaurus = _thesaurus()
    most = math.log(1 + len(CONCEPTS))
    sums: dict[int, float] = {}
    total = 0.0
    for group in groups.values():
        frequency = max((len(thesaurus.speaking.get(w, ())) for w in group), default=0)
        own = len(thesaurus.speaking.get(next(iter(group)), ())) or frequency
        weight = math.log(1 + len(CONCEPTS) / (1 + own)) if own else most
        total += weight if own else most * settings.concept_unknown
        found: dict[int, float] = {}
        for word, factor in group.items():
            for places, strength in (
                (thesaurus.naming.get(word, ()), settings.concept_name * factor),
                (thesaurus.speaking.get(word, ()), factor),
            ):
                for i in places:
                    found[i] = max(found.get(i, 0.0), strength)
        for i, strength in found.items():
            sums[i] = sums.get(i, 0.0) + weight * strength
    long = settings.concept_length
    return {
        i: min(
            1.0, settings.concept_share * value / (total or 1.0) / (1 - long + long * thesaurus.lengths[i])
        )
        for i, value in sums.items()
    }


def _phrase_shares(
    groups: Mapping[str, Mapping[str, float]], question: Question
) -> Iterable[tuple[int, float]]:
    present = frozenset(word for group in groups.values() for word in group)
    weights = {term.spellings[0][0]: term.weight for term in question.terms if len(term.spellings[0]) == 1}
    thesaurus = _thesaurus()
    held_words = Counter(p for word in present for p in thesaurus.holding.get(word, ()))
    for place, count in held_words.items():
        i, phrase = thesaurus.phrases[place]
        held = count / len(phrase)
        if held < 1 and (held < _PHRASE_FLOOR or len(phrase) < 3):
            continue
        covered = sum(weights.get(w, 0.0) for w, group in groups.items() if not phrase.isdisjoint(group))
        yield i, min(covered, 1.0) * held**2
