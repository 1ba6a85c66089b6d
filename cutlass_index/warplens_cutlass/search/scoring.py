"""How well definitions and files answer the words of a question."""

from __future__ import annotations

from collections.abc import Sequence

from warplens_cutlass.search.question import Question, Term
from warplens_cutlass.search.reader import Reader
from warplens_cutlass.settings import RankingSettings

_SYMBOL_FIELDS = "name, path, signature, doc, body"
_FILE_FIELDS = "path, title, doc, names, body"


def symbol_weights(settings: RankingSettings) -> tuple[float, ...]:
    """Weights of the fields of a definition, in the order of the table."""
    return (settings.name_weight, settings.path_weight, settings.signature_weight, settings.doc_weight,
            settings.body_weight)  # fmt: skip


def file_weights(settings: RankingSettings) -> tuple[float, ...]:
    """Weights of the fields of a file, in the order of the table."""
    return (settings.name_weight, settings.title_weight, settings.doc_weight, settings.path_weight,
            settings.body_weight)  # fmt: skip


def candidates(
    question: Question, reader: Reader, table: str, weights: Sequence[float], limit: int
) -> list[int]:
    """Rows of a word table that hold any word of the question, by BM25 with field weights."""
    query = match_expression(question.terms)
    if not query:
        return []
    ranks = ", ".join(f"{w:g}" for w in weights)
    sql = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY bm25({table}, {ranks}) LIMIT ?"
    return [int(str(row[0])) for row in reader.rows(sql, (query, limit))]


def match_expression(terms: Sequence[Term]) -> str:
    """The FTS5 expression of any spelling of any term."""
    parts = [" AND ".join(f'"{w}"' for w in spelling) for term in terms for spelling in term.spellings]
    return " OR ".join(f"({p})" if " AND " in p else p for p in dict.fromkeys(parts))


def score_rows(
    question: Question, reader: Reader, table: str, ids: Sequence[int], weights: Sequence[float],
    settings: RankingSettings,
) -> dict[int, float]:  # fmt: skip
    """Score of each row in 0…1: 1 when every word stands in the best field."""
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
    return {
        int(str(row[0])): _score([f" {field} " for field in row[1:]], question.terms, weights, settings)
        / best
        for row in rows
    }


def _score(
    fields: Sequence[str], terms: Sequence[Term], weights: Sequence[float], settings: RankingSettings
) -> float:
    total = 0.0
    for term in terms:
        value = 0.0
        for number, spelling in enumerate(term.spellings):
            found = _found(fields, spelling, weights)
            value = max(value, found * (1.0 if number == 0 else settings.synonym_weight))
        total += term.weight * value
    return total


def _found(fields: Sequence[str], spelling: tuple[str, ...], weights: Sequence[float]) -> float:
    """The best field that holds the word, plus a little for each other; the weakest of several words."""
    values = []
    for word in spelling:
        needle = f" {word} "
        hits = [weight for field, weight in zip(fields, weights, strict=True) if needle in field]
        if not hits:
            return 0.0
        values.append(max(hits) + 0.1 * (sum(hits) - max(hits)))
    return min(values)
