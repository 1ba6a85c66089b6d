# SPDX-License-Identifier: Apache-2.0
"""Which concepts a question speaks of, and what they add to the definitions and files they name.

A concept is a small document of the index; questions are matched with it as they are with definitions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from warplens_cutlass.index_settings import RankingWeights
from warplens_cutlass.search.examples import examples_of
from warplens_cutlass.search.prior import prior
from warplens_cutlass.search.question import Question
from warplens_cutlass.search.reader import Reader, SymbolHit
from warplens_cutlass.search.scoring import CONCEPTS, candidates, score_rows

_FOUND, _MOST = 40, 8
#: Definitions of one name that share in what a concept adds.
_DEFINITIONS_OF_A_NAME = 3
_HEADERS = (".h", ".hpp", ".inl", ".cuh")


class ConceptMatch(msgspec.Struct, frozen=True):
    """A concept that a question speaks of."""

    does: str
    symbols: tuple[str, ...]
    files: tuple[str, ...]
    #: The share of the question's weight that it covers, 0 to 1.
    share: float


def concepts_in(question: Question, reader: Reader) -> list[ConceptMatch]:
    """Concepts that the question speaks of, best first, at most eight."""
    found = candidates(question, reader, CONCEPTS, _FOUND)
    scores = score_rows(question, reader, CONCEPTS, found)
    best = heapq.nlargest(_MOST, scores, key=lambda key: scores[key].score)
    rows = {int(str(row[0])): row[1:] for row in reader.rows(
        f"SELECT id, does, symbols, files FROM concepts WHERE id IN ({','.join(map(str, best))})"
    )}  # fmt: skip
    return [
        ConceptMatch(str(does), tuple(str(symbols).split()), tuple(str(files).split()), scores[key].score)
        for key in best
        for does, symbols, files in [rows[key]]
    ]  # fmt: skip


class Additions:
    """What concepts add to definitions and files, with the reason."""

    def __init__(self, matches: Sequence[ConceptMatch], reader: Reader, weights: RankingWeights) -> None:
        self._reader, self._weights = reader, weights
        self.symbols: dict[int, tuple[float, str]] = {}
        self.files: dict[int, tuple[float, str]] = {}
        self.hits: dict[int, SymbolHit] = {}
        for match in matches:
            self._add(match)

    def _add(self, match: ConceptMatch) -> None:
        """Raise its definitions and files, less the further down its lists they stand."""
        value = self._weights.concept * match.share
        for place, name in enumerate(match.symbols):
            for hit, share in self._definitions(name):
                self.hits[hit.id] = hit
                _raise(self.symbols, hit.id, value * share * self._weights.concept_place**place, match.does)
        for file_id, share, header in self._files(match):
            why = match.does if header else f"shows how it {match.does}"
            _raise(self.files, file_id, value * share, why)

    def _definitions(self, name: str) -> Iterator[tuple[SymbolHit, float]]:
        """The likeliest definitions of a name, each with its share: 1 for the best, less for the others."""
        scored = sorted(
            ((prior(h, self._weights), h) for h in self._reader.symbols_named([name])), key=lambda p: -p[0]
        )
        for worth, hit in scored[:_DEFINITIONS_OF_A_NAME]:
            yield hit, (worth / (scored[0][0] or 1.0)) ** 2

    def _files(self, match: ConceptMatch) -> Iterable[tuple[int, float, bool]]:
        """(file, share, whether it is a header) of its files; where there are none, of examples of its symbols."""
        found = []
        for place, part in enumerate(match.files):
            files = self._reader.files_like(part)
            share = self._weights.concept_place**place / (1 + 0.1 * max(len(files) - 1, 0))
            found += [(file_id, share, part.endswith(_HEADERS)) for file_id in files]
        if found:
            return found
        return [
            (r.hit.file_id, r.score, False)
            for name in match.symbols[:3]
            for r in examples_of(name, self._reader, scale=0.6)
        ]


def _raise(values: dict[int, tuple[float, str]], key: int, value: float, why: str) -> None:
    if value > values.get(key, (-1.0, ""))[0]:
        values[key] = (value, why)
