# SPDX-License-Identifier: Apache-2.0
"""How well definitions, files, sections and concepts answer the words of a question."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec

from warplens_cutlass.search.question import Question, Term
from warplens_cutlass.search.reader import Reader

#: Inverse document frequency below which a word finds too much: one definition in seven holds it.
_COMMON = 2.1
#: Words of a question that find rows, the heaviest; all words rank them.
_FINDING = 5
#: What a field is worth: a heading, what places it, prose about it, and a body, which mentions everything.
_HEADING, _PLACE, _PROSE, _BODY = 3.0, 2.1, 1.0, 0.4


class Documents(msgspec.Struct, frozen=True):
    """A table of words: what its fields are worth, and which of them find rows."""

    table: str
    fields: dict[str, float]
    finding: tuple[str, ...]


DEFINITIONS = Documents(
    "symbol_words",
    {"name": _HEADING, "path": _PLACE, "signature": _PROSE, "doc": _PROSE, "remarks": _PROSE, "body": _BODY},
    # Bodies mention everything; a definition that holds the words nowhere else is seldom meant.
    ("name", "doc"),
)
FILES = Documents(
    "file_words",
    {"path": _HEADING, "title": _HEADING, "doc": _PROSE, "names": _PLACE, "remarks": _PROSE, "body": _BODY},
    ("path", "title", "doc", "names", "remarks"),
)
SECTIONS = Documents(
    "section_words", {"title": _HEADING, "path": _PLACE, "body": _PROSE}, ("title", "path", "body")
)
CONCEPTS = Documents("concept_words", {"words": _HEADING, "names": _PROSE}, ("words", "names"))


class Evidence(msgspec.Struct, frozen=True):
    """How a row answers a question: its score, and the share of the question's weight that its telling
    fields (all but the body) hold. Both are 0 to 1.
    """

    score: float
    coverage: float


NO_EVIDENCE = Evidence(0.0, 0.0)


def candidates(question: Question, reader: Reader, documents: Documents, limit: int) -> list[int]:
    """Rows that hold any word of the question, by BM25 with the weights of the fields."""
    query = match_expression(_selective(question.terms, reader))
    if not query:
        return []
    table = documents.table
    ranks = ", ".join(f"{w:g}" for w in documents.fields.values())
    sql = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY bm25({table}, {ranks}) LIMIT ?"
    finding = f"{{{' '.join(documents.finding)}}} : ({query})"
    return [int(str(row[0])) for row in reader.rows(sql, (finding, limit))]


def _selective(terms: Sequence[Term], reader: Reader) -> list[Term]:
    """The heaviest terms, without spellings that half the corpus holds while others remain: those find, all rank."""
    kept = []
    for term in terms:
        rare = tuple(s for s in term.spellings if max(reader.idf(w) for w in s) >= _COMMON)
        if rare:
            kept.append(Term(rare, term.weight))
    found = kept if len(kept) >= 2 else list(terms)
    return heapq.nlargest(_FINDING, found, key=lambda term: term.weight)


def match_expression(terms: Sequence[Term]) -> str:
    """The FTS5 expression of any spelling of any term."""
    parts = [" AND ".join(f'"{w}"' for w in spelling) for term in terms for spelling in term.spellings]
    return " OR ".join(f"({p})" if " AND " in p else p for p in dict.fromkeys(parts))


def score_rows(
    question: Question, reader: Reader, documents: Documents, ids: Sequence[int]
) -> dict[int, Evidence]:
    """Evidence of each row; its score is 1 when every word stands in the best field."""
    if not ids:
        return {}
    fields, marks = ", ".join(documents.fields), ",".join(map(str, ids))
    rows = reader.rows(f"SELECT rowid, {fields} FROM {documents.table} WHERE rowid IN ({marks})")
    plan = _plan(question.terms)
    weights = tuple(documents.fields.values())
    return {int(str(row[0])): _score([f" {field} " for field in row[1:]], plan, weights) for row in rows}


#: For each term: its weight, and per spelling its words, each between blanks.
_Plan = list[tuple[float, list[tuple[str, ...]]]]


def _plan(terms: Sequence[Term]) -> _Plan:
    return [(t.weight, [tuple(f" {w} " for w in spelling) for spelling in t.spellings]) for t in terms]


def _score(fields: Sequence[str], plan: _Plan, weights: Sequence[float]) -> Evidence:
    whole = "".join(fields)
    best = max(weights)
    total = coverage = 0.0
    # Plain loops: this runs some thousand times in one question.
    for weight, spellings in plan:
        value = 0.0
        for words in spellings:
            if words[0] in whole:
                value = max(value, min(_found(fields, word, weights) for word in words))
        total += weight * value
        if value > 1.3 * _BODY:
            coverage += weight
    return Evidence(total / best, coverage)


def _found(fields: Sequence[str], needle: str, weights: Sequence[float]) -> float:
    """The best field that holds a word, plus a little for each other."""
    best = rest = 0.0
    for field, weight in zip(fields, weights, strict=True):
        if needle in field:
            rest += weight
            best = max(best, weight)
    return best + 0.1 * (rest - best)
