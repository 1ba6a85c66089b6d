"""How well definitions and files answer the words of a question."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

import msgspec

from warplens_cutlass.search.question import Question, Term
from warplens_cutlass.search.reader import Reader
from warplens_cutlass.settings import RankingSettings

#: Inverse document frequency below which a word finds too much: one definition in seven holds it.
_COMMON = 2.1
#: Words of a question that find rows, the heaviest; all words rank them.
_FINDING = 5


class Evidence(msgspec.Struct, frozen=True):
    """How a row answers a question: its score, and the share of the question's weight that its telling
    fields (all but the body) hold. Both are 0 to 1.
    """

    score: float
    coverage: float


NO_EVIDENCE = Evidence(0.0, 0.0)
_SYMBOL_FIELDS = "name, path, signature, doc, remarks, body"
_FILE_FIELDS = "path, title, doc, names, remarks, body"


def symbol_weights(settings: RankingSettings) -> tuple[float, ...]:
    """Weights of the fields of a definition, in the order of the table."""
    return (settings.name_weight, settings.path_weight, settings.signature_weight, settings.doc_weight,
            settings.remark_weight, settings.body_weight)  # fmt: skip


def file_weights(settings: RankingSettings) -> tuple[float, ...]:
    """Weights of the fields of a file, in the order of the table."""
    return (settings.name_weight, settings.title_weight, settings.doc_weight, settings.path_weight,
            settings.remark_weight, settings.body_weight)  # fmt: skip


def candidates(
    question: Question, reader: Reader, table: str, weights: Sequence[float], limit: int
) -> list[int]:
    """Rows of a word table that hold any word of the question, by BM25 with field weights."""
    query = match_expression(_selective(question.terms, reader))
    if not query:
        return []
    if table == "symbol_words":
        # Bodies mention everything; a definition that holds the words nowhere else is seldom meant.
        query = f"{{name doc}} : ({query})"
    elif table == "file_words":
        query = f"{{path title doc names remarks}} : ({query})"
    ranks = ", ".join(f"{w:g}" for w in weights)
    sql = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY bm25({table}, {ranks}) LIMIT ?"
    return [int(str(row[0])) for row in reader.rows(sql, (query, limit))]


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
    question: Question, reader: Reader, table: str, ids: Sequence[int], weights: Sequence[float],
    settings: RankingSettings, *, together: float = 0.0,
) -> dict[int, Evidence]:  # fmt: skip
    """Evidence of each row; its score is 1 when every word stands in the best field.

    Neighbours in the question that are neighbours in the row add `together` of the lighter one's weight.
    """
    if not ids:
        return {}
    fields = (
        _SYMBOL_FIELDS
        if table == "symbol_words"
        else _FILE_FIELDS
        if table == "file_words"
        else "title, path, body"
    )
    rows = reader.rows(f"SELECT rowid, {fields} FROM {table} WHERE rowid IN ({','.join(map(str, ids))})")
    best = max(weights)
    plan = _plan(question.terms, settings)
    if together:
        plan += _neighbours(question, together)
    return {
        int(str(row[0])): _score([f" {field} " for field in row[1:]], plan, weights, best) for row in rows
    }


#: For each term: its weight, and per spelling its first word, its further words (with blanks around), its factor.
_Plan = list[tuple[float, list[tuple[str, tuple[str, ...], float]]]]


def _plan(terms: Sequence[Term], settings: RankingSettings) -> _Plan:
    return [
        (
            term.weight,
            [
                (f" {first} ", tuple(f" {w} " for w in rest), settings.synonym_weight if number else 1.0)
                for number, (first, *rest) in enumerate(term.spellings)
            ],
        )
        for term in terms
    ]


def _neighbours(question: Question, together: float) -> _Plan:
    weights = {t.spellings[0][0]: t.weight for t in question.terms if len(t.spellings[0]) == 1}
    return [
        (together * min(weights[left], weights[right]), [(f" {left} {right} ", (), 1.0)])
        for left, right in itertools.pairwise(question.words)
        if left in weights and right in weights
    ]


def _score(fields: Sequence[str], plan: _Plan, weights: Sequence[float], best: float) -> Evidence:
    whole = "".join(fields)
    total = coverage = 0.0
    telling = 1.3 * weights[-1]
    # Plain loops: this runs some thousand times in one question.
    for weight, spellings in plan:
        value = 0.0
        for first, rest, factor in spellings:
            if first not in whole or factor * best <= value:
                continue
            found = _found(fields, first, weights)
            for word in rest:
                found = min(found, _found(fields, word, weights))
            if factor * found > value:
                value = factor * found
        total += weight * value
        if value > telling:
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
