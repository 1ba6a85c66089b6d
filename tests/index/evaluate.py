# SPDX-License-Identifier: Apache-2.0
"""Judges rankings of the CUTLASS corpus: our search beside two baselines, on the queries in `judged/`.

A result counts at file level when it names a right file, at symbol level when it also lands on a right
definition. Baselines: files ranked by how many distinct words of the query they hold (as ripgrep's OR of the
words would), and plain FTS5/BM25 over chunks of 60 lines.
"""

from __future__ import annotations

import math
import re
import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from warplens_cutlass.engine import SearchOptions, search
from warplens_cutlass.index_settings import IndexSettings, RankingWeights

JUDGED = Path(__file__).parent / "judged"
_WORD = re.compile(r"[A-Za-z_]\w+")
_CHUNK = 60


class Right(msgspec.Struct, frozen=True):
    """A right file, its right definitions ("" symbols: any place in it), and how right it is (1 to 3)."""

    path: str
    symbols: tuple[str, ...]
    grade: int


class Query(msgspec.Struct, frozen=True):
    """A judged query."""

    id: str
    kind: str
    half: str
    query: str
    answers: tuple[Right, ...]
    code: str = ""


class Place(msgspec.Struct, frozen=True):
    """Where a result points: a symbol where the ranking knows one, lines otherwise."""

    path: str
    symbol: str = ""
    line: int = 0
    end_line: int = 0


class Scores(msgspec.Struct, frozen=True):
    """Means over queries; seconds for latency."""

    queries: int
    success_1: float
    success_5: float
    mrr_10: float
    ndcg_10: float


Ranking = Callable[[Query], list[Place]]
Lines = dict[tuple[str, str], list[int]]


def load(name: str = "cutlass-4.2.0.json") -> list[Query]:
    """The judged queries of a file."""
    return msgspec.json.decode((JUDGED / name).read_bytes(), type=list[Query])


def ours(query: Query, weights: RankingWeights | None = None) -> list[Place]:
    """The ranking of this package, with its own weights or others."""
    settings = IndexSettings(ranking=weights or RankingWeights())
    answer = search(query.query, like=query.code, options=SearchOptions(limit=10), settings=settings)
    return [Place(r.path, r.symbol.rsplit("::", 1)[-1]) for r in answer.results]


def words_of(query: Query) -> list[str]:
    """What a baseline is given: the words of the query, or the identifiers of the code."""
    found = _WORD.findall(f"{query.query} {query.code}")
    return list(dict.fromkeys(w.lower() for w in found if len(w) > 2))


class DistinctWords:
    """Files by the number of distinct query words they hold, then by all hits: what an OR of the words gives."""

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self._texts = {p: (root / p).read_text(errors="replace").lower() for p in paths}

    def __call__(self, query: Query) -> list[Place]:
        words = words_of(query)
        counts = ((p, [t.count(w) for w in words]) for p, t in self._texts.items())
        ranked = sorted(((-sum(map(bool, c)), -sum(c), p) for p, c in counts), key=lambda x: x)
        return [self._place(p, words) for distinct, _, p in ranked[:10] if distinct]

    def _place(self, path: str, words: Sequence[str]) -> Place:
        """The line with most distinct words."""
        lines = self._texts[path].split("\n")
        best = max(range(len(lines)), key=lambda i: sum(w in lines[i] for w in words))
        return Place(path, line=best + 1, end_line=best + 1)


class Chunks:
    """Plain FTS5/BM25 over chunks of 60 lines."""

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute("CREATE VIRTUAL TABLE chunks USING fts5(path UNINDEXED, line UNINDEXED, text)")
        for path in paths:
            lines = (root / path).read_text(errors="replace").split("\n")
            rows = [(path, i + 1, "\n".join(lines[i : i + _CHUNK])) for i in range(0, len(lines), _CHUNK)]
            self._db.executemany("INSERT INTO chunks VALUES (?,?,?)", rows)

    def __call__(self, query: Query) -> list[Place]:
        expression = " OR ".join(f'"{w}"' for w in words_of(query))
        sql = "SELECT path, line FROM chunks WHERE chunks MATCH ? ORDER BY rank LIMIT 10"
        return [Place(p, line=n, end_line=n + _CHUNK - 1) for p, n in self._db.execute(sql, (expression,))]


def file_grades(places: Sequence[Place], query: Query) -> list[int]:
    """Grade of each result at file level; a file counts once."""
    grades = {a.path: a.grade for a in reversed(query.answers)}
    seen: set[str] = set()
    return [0 if p.path in seen or seen.add(p.path) else grades.get(p.path, 0) for p in places]  # type: ignore[func-returns-value]


def symbol_grades(places: Sequence[Place], query: Query, lines: Lines) -> list[int]:
    """Grade of each result at symbol level; a definition counts once."""
    seen: set[Place] = set()
    grades = []
    for place in places:
        grade = max((a.grade for a in query.answers if _lands(place, a, lines)), default=0)
        grades.append(0 if place in seen else grade)
        seen.add(place)
    return grades


def _lands(place: Place, right: Right, lines: Lines) -> bool:
    if place.path != right.path:
        return False
    if place.symbol:
        return place.symbol in right.symbols
    return any(
        place.line <= n <= place.end_line for s in right.symbols for n in lines.get((right.path, s), [])
    )


def summarise(graded: Sequence[tuple[Query, list[int]]], ideal: Callable[[Query], list[int]]) -> Scores:
    """Means of success@1, success@5, MRR@10 and nDCG@10."""
    ranks = [next((i for i, g in enumerate(grades[:10], 1) if g), 0) for _, grades in graded]
    return Scores(
        queries=len(graded),
        success_1=_mean([r == 1 for r in ranks]),
        success_5=_mean([0 < r <= 5 for r in ranks]),
        mrr_10=_mean([1 / r if r else 0.0 for r in ranks]),
        ndcg_10=_mean(
            [_dcg(grades[:10]) / max(_dcg(sorted(ideal(q), reverse=True)[:10]), 1e-9) for q, grades in graded]
        ),
    )


def _dcg(grades: Sequence[int]) -> float:
    return math.fsum((2**g - 1) / math.log2(i + 1) for i, g in enumerate(grades, 1))


def _mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 4) if values else 0.0


def run(ranking: Ranking, queries: Sequence[Query]) -> tuple[list[tuple[Query, list[Place]]], list[float]]:
    """Every query once; results and seconds."""
    answers, seconds = [], []
    for query in queries:
        started = time.perf_counter()
        places = ranking(query)
        seconds.append(time.perf_counter() - started)
        answers.append((query, places))
    return answers, seconds


def file_scores(answers: Sequence[tuple[Query, list[Place]]]) -> Scores:
    """At file level."""
    return summarise([(q, file_grades(p, q)) for q, p in answers], lambda q: [a.grade for a in q.answers])


def symbol_scores(answers: Sequence[tuple[Query, list[Place]]], lines: Lines) -> Scores:
    """At symbol level, over the queries that name a right definition."""
    named = [(q, p) for q, p in answers if any(a.symbols for a in q.answers)]
    return summarise(
        [(q, symbol_grades(p, q, lines)) for q, p in named],
        lambda q: [a.grade for a in q.answers for _ in a.symbols],
    )
