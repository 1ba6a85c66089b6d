# SPDX-License-Identifier: Apache-2.0
"""`search`: one question to one or several corpora."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from warplens_cutlass.corpus import Corpus, NoCorpusError, corpora
from warplens_cutlass.extract.architecture import architectures
from warplens_cutlass.index_settings import IndexSettings, RankingWeights
from warplens_cutlass.model import Answer, CorpusRoot, Kind, Result
from warplens_cutlass.search.by_name import is_surely_a_name, name_matches, rank_names
from warplens_cutlass.search.by_words import rank_words
from warplens_cutlass.search.code_facts import CodeFacts, look_at
from warplens_cutlass.search.names import NameMatch
from warplens_cutlass.search.present import file_results, result_of, section_results
from warplens_cutlass.search.question import parse_query
from warplens_cutlass.search.ranked import Ranked, definition_then_example, diversify
from warplens_cutlass.search.reader import Reader, forget_reader, open_reader
from warplens_cutlass.store.generation import current_index
from warplens_cutlass.vocabulary import query_words, synonyms
from warplens_tools.errors import InputError
from warplens_tools.process.task import UNATTENDED, Task

T = TypeVar("T")


class SearchOptions(msgspec.Struct, frozen=True):
    """Filters and size of an answer."""

    #: "sm_90", "sm90" or "hopper": keeps what is for that architecture or for none in particular.
    arch: str = ""
    kinds: tuple[Kind, ...] = ()
    #: An element type: "fp8", "bf16", "tf32"; keeps what speaks of it.
    type: str = ""
    limit: int = 10
    #: Names of corpora; all by default.
    corpora: tuple[str, ...] = ()


class _Found(msgspec.Struct, frozen=True):
    """The answer of one corpus. `named`: its first result has the very name that was asked for."""

    results: list[Result]
    named: bool
    recognised: tuple[str, ...]


def search(
    query: str = "",
    *,
    like: str = "",
    options: SearchOptions | None = None,
    settings: IndexSettings | None = None,
    task: Task = UNATTENDED,
) -> Answer:
    """Find definitions and examples for words or a name (`query`), for code (`like`), or for both.

    A corpus whose index is missing, damaged or of an older form is built first.

    Raises:
        InputError: neither words nor code, or no corpus of a name that was given.
        NoCorpusError: nothing was ever indexed.
        CancelledError: `task` was stopped.
    """
    options, settings = options or SearchOptions(), settings or IndexSettings()
    if not query.strip() and not like.strip():
        raise InputError("nothing to search for", remedy="give words, a symbol, or --like FILE:START-END")
    facts = look_at(like) if like.strip() else None
    chosen = _chosen(options)
    found = [
        with_reader(corpus, lambda r: _search_one(r, query, facts, options, settings), settings, task)
        for corpus in chosen
    ]
    results = _merged(chosen, found)[: options.limit]
    several = len(chosen) > 1
    return Answer(
        results=tuple(r if several else msgspec.structs.replace(r, corpus="") for r in results),
        root=chosen[0].root if not several else "",
        corpora=tuple(CorpusRoot(c.name, c.version, c.root) for c in chosen),
        recognised=tuple(dict.fromkeys(s for f in found for s in f.recognised)),
    )


def _merged(chosen: Sequence[Corpus], found: Sequence[_Found]) -> list[Result]:
    """By score; but what has the very name comes first, and there the user's own code before CUTLASS."""
    named = [(c, f.results[0]) for c, f in zip(chosen, found, strict=True) if f.named]
    first = [result for _, result in sorted(named, key=lambda pair: bool(pair[0].version))]
    rest = sorted((r for f in found for r in f.results if r not in first), key=lambda r: -r.score)
    return _falling([*first, *rest])


def with_reader(
    corpus: Corpus,
    action: Callable[[Reader], T],
    settings: IndexSettings | None = None,
    task: Task = UNATTENDED,
) -> T:
    """Run `action` on the open index; a missing or damaged one is built anew and tried once more.

    Raises:
        InputError: the index cannot be built, since the folder is gone.
    """
    settings = settings or IndexSettings()
    for attempt in (0, 1):
        database = current_index(corpus)
        if database is None:
            from warplens_cutlass.store.build import update  # process pools and locks, needed seldom

            task.say(f"indexing {corpus.name}", None)
            update(corpus, settings=settings, task=task)
            database = current_index(corpus)
            if database is None:
                raise InputError(f"the index of {corpus.name} could not be built")
        reader: Reader | None = None
        try:
            reader = open_reader(corpus, database)
            with reader.lock:
                reader.refresh()
                return action(reader)
        except sqlite3.DatabaseError as error:
            if reader is not None:
                forget_reader(reader)
            if attempt:
                raise InputError(f"the index of {corpus.name} cannot be read: {error}") from error
            database.unlink(missing_ok=True)
    raise AssertionError("unreachable")


def _chosen(options: SearchOptions) -> Sequence[Corpus]:
    known = corpora()
    if not known:
        raise NoCorpusError(
            "there is no corpus to search",
            remedy="run `warplens setup cutlass` or `warplens index build PATH`",
        )
    unknown = set(options.corpora) - {c.name for c in known}
    if unknown:
        raise InputError(
            f"there is no corpus {min(unknown)}",
            remedy=f"the corpora are {', '.join(c.name for c in known)}"
            if known
            else "see `warplens index status`",
        )
    return [c for c in known if not options.corpora or c.name in options.corpora]


def unbuilt(options: SearchOptions | None = None) -> tuple[Corpus, ...]:
    """The corpora that a search would have to index first; a caller may ask before it waits for that.

    Raises:
        InputError: there is no corpus of a name that was given.
        NoCorpusError: nothing was ever indexed.
    """
    return tuple(c for c in _chosen(options or SearchOptions()) if current_index(c) is None)


def _search_one(
    reader: Reader, query: str, facts: CodeFacts | None, options: SearchOptions, settings: IndexSettings
) -> _Found:
    weights = settings.ranking
    question = parse_query(query, reader)
    matches = name_matches(query, reader) if facts is None else []
    sure = is_surely_a_name(query, matches)
    ranked = _candidates(reader, query, facts, matches, weights)
    ranked = [r for r in _best_of_each(ranked) if _kept(r, options, reader)]
    chosen = _there(diversify(ranked, 2 * max(options.limit, 10), weights.crowding), reader)
    if sure or facts:
        chosen = definition_then_example(chosen)
    results = [result_of(r, reader, settings, question) for r in chosen[: options.limit]]
    files = file_results(query, reader, settings) if not options.kinds or "file" in options.kinds else []
    if not facts and not sure and (not options.kinds or "section" in options.kinds):
        results = section_results(results, question, reader, options.limit)
    exact = bool(files) or (sure and matches[0].quality == 1.0 and bool(results))
    return _Found(_falling([*files, *results]), exact, _recognised(facts, reader))


def _recognised(facts: CodeFacts | None, reader: Reader) -> tuple[str, ...]:
    if facts is None:
        return ()
    from warplens_cutlass.search.by_code import recognised

    return recognised(facts, reader)


def _there(ranked: Sequence[Ranked], reader: Reader) -> list[Ranked]:
    there = {hit.id for hit in reader.there([r.hit for r in ranked])}
    return [r for r in ranked if r.hit.id in there]


def _candidates(
    reader: Reader, query: str, facts: CodeFacts | None, matches: list[NameMatch], weights: RankingWeights
) -> list[Ranked]:
    if facts is not None:
        from warplens_cutlass.search.by_code import rank_code

        return rank_code(facts, query, reader, weights)
    named = rank_names(query, matches, reader, weights)
    sure = is_surely_a_name(query, matches)
    if sure and len(query.split()) == 1:
        return named
    words = rank_words(parse_query(query, reader), reader, weights)
    return [*named, *(_below(words, named) if sure else words)]


def _below(words: list[Ranked], named: list[Ranked]) -> list[Ranked]:
    """What the words of a query find, scaled to stay behind the definition that it spells as a whole."""
    best = max((r.score for r in words), default=0.0)
    scale = min(1.0, 0.95 * max(r.score for r in named) / best) if named and best else 1.0
    return [msgspec.structs.replace(r, score=r.score * scale) for r in words]


def _best_of_each(ranked: list[Ranked]) -> list[Ranked]:
    best: dict[int, Ranked] = {}
    for r in ranked:
        old = best.get(r.hit.id)
        if old is None or r.score > old.score:
            best[r.hit.id] = r
    return list(best.values())


def _kept(r: Ranked, options: SearchOptions, reader: Reader) -> bool:
    if options.arch:
        wanted = frozenset(architectures(options.arch.replace("sm", "sm_").replace("__", "_")))
        if wanted and r.hit.arch and not r.hit.arch & wanted:
            return False
    if options.kinds and r.hit.kind not in options.kinds and not (r.example and "example" in options.kinds):
        return False
    return not options.type or _speaks_of_type(r, options.type, reader)


def _speaks_of_type(r: Ranked, type_name: str, reader: Reader) -> bool:
    """The type or a synonym of it among the words of the definition or of its file's name and title."""
    words = query_words(type_name)
    rows = reader.rows(
        "SELECT name || ' ' || signature || ' ' || doc || ' ' || body FROM symbol_words WHERE rowid = ?",
        (r.hit.id,),
    )
    rows += reader.rows(
        "SELECT path || ' ' || title || ' ' || doc FROM file_words WHERE rowid = ?", (r.hit.file_id,)
    )
    text = set(" ".join(str(row[0]) for row in rows).split()) | set(
        re.findall(r"[a-z]+\d+", r.hit.name.lower())
    )
    return all(w in text or any(all(x in text for x in s) for s in synonyms().get(w, ())) for w in words)


def _falling(results: list[Result]) -> list[Result]:
    """Scores never rise down the list: the example in second place takes its neighbour's."""
    highest = float("inf")
    fallen = []
    for r in results:
        highest = min(highest, r.score)
        fallen.append(msgspec.structs.replace(r, score=round(highest, 4)))
    return fallen
