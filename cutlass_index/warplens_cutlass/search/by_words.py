# SPDX-License-Identifier: Apache-2.0
"""Ranks definitions and examples for a question in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from warplens_cutlass.index_settings import RankingWeights
from warplens_cutlass.search.prior import prior
from warplens_cutlass.search.question import Question
from warplens_cutlass.search.ranked import Ranked, is_example
from warplens_cutlass.search.reader import Reader, SymbolHit
from warplens_cutlass.search.scoring import (
    DEFINITIONS,
    FILES,
    NO_EVIDENCE,
    Evidence,
    candidates,
    score_rows,
)
from warplens_cutlass.search.thesaurus import Additions, concepts_in
from warplens_cutlass.words import split

#: Candidates read from the full-text tables.
_DEFINITIONS, _FILES = 60, 30
#: Share of a question from which on covering it counts by itself.
_COVERED = 0.6


def rank_words(question: Question, reader: Reader, weights: RankingWeights) -> list[Ranked]:
    """All candidates with their scores, unordered."""
    additions = Additions(concepts_in(question, reader), reader, weights)
    symbol_ids = candidates(question, reader, DEFINITIONS, _DEFINITIONS)
    file_ids = candidates(question, reader, FILES, _FILES)
    mains = _main_symbols({*file_ids, *additions.files}, reader)
    hits = reader.symbols({*symbol_ids, *mains}) | additions.hits
    words = score_rows(question, reader, DEFINITIONS, list(hits))
    files = score_rows(question, reader, FILES, list({h.file_id for h in hits.values()}))
    asked = frozenset(w for term in question.terms for spelling in term.spellings for w in spelling)
    ranking = _Ranking(weights, additions, asked, mains)
    return [
        ranking.rank(hit, words.get(hit.id, NO_EVIDENCE), files.get(hit.file_id, NO_EVIDENCE))
        for hit in hits.values()
    ]


class _Ranking(msgspec.Struct, frozen=True):
    """What stays the same for all candidates of one question."""

    weights: RankingWeights
    additions: Additions
    #: All words of the question, in every spelling.
    asked: frozenset[str]
    #: Definitions that their files are about.
    mains: frozenset[int]

    def rank(self, hit: SymbolHit, words: Evidence, file: Evidence) -> Ranked:
        """The score of one definition from its own evidence, its file's, and what concepts add."""
        w = self.weights
        stem = hit.path.rsplit("/", 1)[-1].split(".", 1)[0]
        own = words.score * prior(hit, w)
        around = file.score * (1 + w.file_focus * (self._focus(split(stem)) - 0.5))
        coverage = max(words.coverage, file.coverage)
        extra, why = self.additions.symbols.get(hit.id, (0.0, ""))
        if hit.id in self.mains:
            extra, why = max((extra, why), self.additions.files.get(hit.file_id, (0.0, "")))
        score = (own + around) / 2 * (1 + w.full_coverage * max(0.0, coverage - _COVERED)) + extra
        score *= 1 + w.included * math.log1p(hit.included)
        return Ranked(hit, score, why, example=is_example(hit))

    def _focus(self, words: Sequence[str]) -> float:
        """Share of a name's words that the question speaks of: 1 for a name that says nothing else."""
        return sum(w in self.asked for w in words) / max(len(words), 1)


def _main_symbols(file_ids: Iterable[int], reader: Reader) -> frozenset[int]:
    wanted = ",".join(map(str, file_ids))
    rows = reader.rows(f"SELECT main_symbol FROM files WHERE id IN ({wanted}) AND main_symbol > 0")
    return frozenset(int(str(row[0])) for row in rows)
