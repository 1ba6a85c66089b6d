# SPDX-License-Identifier: Apache-2.0
"""What a query asks: its words with their other spellings, and what each weighs."""

from __future__ import annotations

import msgspec

from warplens_cutlass.search.reader import Reader
from warplens_cutlass.vocabulary import query_words, synonyms
from warplens_cutlass.words import split


class Term(msgspec.Struct, frozen=True):
    """One word of the query: `spellings[0]` is the word itself, the rest its synonyms."""

    spellings: tuple[tuple[str, ...], ...]
    #: Share of the query's meaning that the word carries; all terms sum to 1.
    weight: float


class Question(msgspec.Struct, frozen=True):
    """A parsed query."""

    text: str
    terms: tuple[Term, ...]


def parse_query(text: str, reader: Reader) -> Question:
    """Parse a query against the vocabulary of one corpus."""
    words = query_words(text)
    spelled = [_spellings(w, reader) if _known(w, reader) else _repaired(w, reader) for w in words]
    weighted = [(s, _weight(s, reader)) for s in spelled if s]
    total = sum(weight for _, weight in weighted) or 1.0
    return Question(text, tuple(Term(s, weight / total) for s, weight in weighted if weight > 0))


def _known(word: str, reader: Reader) -> bool:
    return reader.idf(word) > 0 or any(all(reader.idf(w) for w in s) for s in synonyms().get(word, ()))


def _weight(spellings: tuple[tuple[str, ...], ...], reader: Reader) -> float:
    """How rare a word is; as rare as its commonest spelling where the corpus lacks it."""
    values = [min(reader.idf(w) for w in s) for s in spellings]
    return values[0] if values[0] > 0 else min((v for v in values if v > 0), default=0.0)


def _spellings(word: str, reader: Reader) -> tuple[tuple[str, ...], ...]:
    others = (s for s in synonyms().get(word, ()) if all(reader.idf(w) > 0 for w in s))
    return ((word,), *others)


def _repaired(word: str, reader: Reader) -> tuple[tuple[str, ...], ...]:
    """A word the corpus lacks: cut in two, or as the known word it is a misspelling of."""
    cut = _cut(word, reader)
    if cut or len(word) < 5 or not word.isalpha():
        return cut
    near = reader.closest_word(word)
    return _spellings(near, reader) if near else ()


def _cut(word: str, reader: Reader) -> tuple[tuple[str, ...], ...]:
    """A word the corpus lacks, cut into two that it has: "reduceadd" as reduce and add."""
    for at in range(3, len(word) - 2):
        left, right = split(word[:at]), split(word[at:])
        if len(left) == len(right) == 1 and reader.idf(left[0]) > 0 and reader.idf(right[0]) > 0:
            return ((left[0], right[0]),)
    return ()
