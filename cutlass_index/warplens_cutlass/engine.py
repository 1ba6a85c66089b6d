"""`search`: one question to one or several corpora."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from warplens_cutlass.corpus import Corpus, corpora
from warplens_cutlass.extract.architecture import architectures
from warplens_cutlass.model import Answer, CorpusRoot, Kind, Result
from warplens_cutlass.search.by_name import name_matches, rank_names
from warplens_cutlass.search.by_words import rank_words
from warplens_cutlass.search.present import result_of, section_results
from warplens_cutlass.search.question import Question, ask
from warplens_cutlass.search.ranked import Ranked, definition_then_example, spread
from warplens_cutlass.search.reader import Reader, forget_reader, open_reader
from warplens_cutlass.settings import IndexSettings, RankingSettings
from warplens_cutlass.store.generation import current_index
from warplens_cutlass.vocabulary import query_words, synonyms
from warplens_tools.errors import InputError
from warplens_tools.process.cancel import CancelToken, Progress, no_progress

if TYPE_CHECKING:
    from warplens_cutlass.search.recognise import CodeFacts

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


def search(
    query: str = "",
    *,
    like: str = "",
    options: SearchOptions | None = None,
    settings: IndexSettings | None = None,
    progress: Progress = no_progress,
    cancel: CancelToken | None = None,
) -> Answer:
    """Find definitions and examples for words or a name (`query`), for code (`like`), or for both.

    A corpus whose index is missing, damaged or of an older form is built first.

    Raises:
        InputError: neither words nor code, or no corpus to search.
        CancelledError: `cancel` was triggered.
    """
    options, settings = options or SearchOptions(), settings or IndexSettings()
    if not query.strip() and not like.strip():
        raise InputError("nothing to search for", remedy="give words, a symbol, or --like FILE:START-END")
    facts = _look_at(like)
    chosen = _chosen(options)
    results: list[Result] = []
    for corpus in chosen:
        results += with_reader(
            corpus, lambda r: _search_one(r, query, facts, options, settings), settings, progress, cancel
        )
    several = len(chosen) > 1
    results.sort(key=lambda r: -r.score) if several else None
    return Answer(
        results=tuple(
            r if several else msgspec.structs.replace(r, corpus="") for r in results[: options.limit]
        ),
        root=chosen[0].root if not several else "",
        corpora=tuple(CorpusRoot(c.name, c.version, c.root) for c in chosen),
        recognised=facts.sentences() if facts else (),
    )


def with_reader(
    corpus: Corpus,
    action: Callable[[Reader], T],
    settings: IndexSettings | None = None,
    progress: Progress = no_progress,
    cancel: CancelToken | None = None,
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

            progress(f"indexing {corpus.name}", None)
            update(corpus, settings=settings, progress=progress, cancel=cancel)
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


def _look_at(code: str) -> CodeFacts | None:
    if not code.strip():
        return None
    from warplens_cutlass.search.recognise import recognise  # brings the parsers, which words do not need

    return recognise(code)


def _chosen(options: SearchOptions) -> Sequence[Corpus]:
    known = corpora()
    chosen = [c for c in known if not options.corpora or c.name in options.corpora]
    if not chosen:
        raise InputError(
            "there is no corpus to search",
            remedy="run `warplens setup cutlass` or `warplens index build PATH`",
        )
    return chosen


def _search_one(
    reader: Reader, query: str, facts: CodeFacts | None, options: SearchOptions, settings: IndexSettings
) -> list[Result]:
    ranking = settings.ranking
    question = ask(query, reader, ranking, options.arch)
    ranked, named = _candidates(reader, question, facts, ranking)
    ranked = [r for r in _best_of_each(ranked) if _kept(r, options, reader)]
    chosen = spread(ranked, max(options.limit, 10), ranking)
    if named or facts:
        chosen = definition_then_example(chosen, ranking.definition_floor)
    chosen = chosen[: options.limit]
    results = [result_of(r, reader, settings, question) for r in chosen]
    if not facts and not named and (not options.kinds or "section" in options.kinds):
        results = section_results(results, question, reader, settings, options)
    return _falling(results)


def _candidates(
    reader: Reader, question: Question, facts: CodeFacts | None, ranking: RankingSettings
) -> tuple[list[Ranked], bool]:
    if facts is not None:
        from warplens_cutlass.search.by_code import rank_code

        ranked = rank_code(facts, reader, ranking, question.arch)
        for beside, scale in (
            (question, ranking.words_beside_code),
            (ask(facts.prose, reader, ranking), ranking.words_in_code),
        ):
            if beside.terms:
                scored = rank_words(beside, reader, ranking)
                ranked = _summed(ranked, [msgspec.structs.replace(r, score=r.score * scale) for r in scored])
        return ranked, False
    matches = name_matches(question, reader, ranking)
    named = rank_names(question, matches, reader, ranking) if matches else []
    single = len(question.text.split()) == 1
    sure = bool(matches) and matches[0].quality >= (ranking.sure_single_name if single else ranking.sure_name)
    if sure and single:
        return named, True
    words = rank_words(question, reader, ranking)
    return [*named, *(_below(words, named) if sure else words)], sure


def _below(words: list[Ranked], named: list[Ranked]) -> list[Ranked]:
    """What the words of a query find, scaled to stay behind the definition that it spells as a whole."""
    best = max((r.score for r in words), default=0.0)
    scale = min(1.0, 0.95 * max(r.score for r in named) / best) if named and best else 1.0
    return [msgspec.structs.replace(r, score=r.score * scale) for r in words]


def _summed(first: list[Ranked], second: list[Ranked]) -> list[Ranked]:
    """Both lists; what stands in both gets the sum."""
    extra = {r.hit.id: r.score for r in second}
    joined = [msgspec.structs.replace(r, score=r.score + extra.get(r.hit.id, 0.0)) for r in first]
    known = {r.hit.id for r in first}
    return [*joined, *(r for r in second if r.hit.id not in known)]


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
