"""Ranks definitions, examples and sections for a question in words (names in it included)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import msgspec

from warplens_cutlass.search.by_name import examples_of
from warplens_cutlass.search.names import NameMatch, match_names
from warplens_cutlass.search.prior import arch_factor, prior
from warplens_cutlass.search.question import Question
from warplens_cutlass.search.ranked import Ranked, is_example
from warplens_cutlass.search.reader import Reader, SymbolHit
from warplens_cutlass.search.scoring import (
    NO_EVIDENCE,
    Evidence,
    candidates,
    file_weights,
    score_rows,
    symbol_weights,
)
from warplens_cutlass.search.thesaurus import ConceptMatch, concepts_in
from warplens_cutlass.settings import RankingSettings
from warplens_cutlass.vocabulary import query_words
from warplens_cutlass.words import normal_name, split

_TOKEN = re.compile(r"[\w:]+")
#: Definitions of one name that share in what a concept or a spelling adds.
_DEFINITIONS_OF_A_NAME = 3
_HEADERS = (".h", ".hpp", ".inl", ".cuh")


class Boosts:
    """What concepts and spellings add to definitions and files, with the reason."""

    def __init__(self, further: float) -> None:
        self.further = further
        self.symbols: dict[int, tuple[float, str]] = {}
        self.files: dict[int, tuple[float, str]] = {}
        self.hits: dict[int, SymbolHit] = {}

    def symbol(self, hit: SymbolHit, value: float, why: str) -> None:
        """Raise a definition to at least `value`."""
        self.hits[hit.id] = hit
        if value > self.symbols.get(hit.id, (0.0, ""))[0]:
            self.symbols[hit.id] = (value, why)

    def file(self, file_id: int, value: float, why: str) -> None:
        """Raise a file by the best value given for it, and by a part of every further concept's."""
        old, reason = self.files.get(file_id, (0.0, why))
        if reason == why:
            self.files[file_id] = (max(value, old), why)
        else:
            best = why if value > old else reason
            self.files[file_id] = (max(value, old) + self.further * min(value, old), best)


def rank_words(question: Question, reader: Reader, settings: RankingSettings) -> list[Ranked]:
    """All candidates with their scores, unordered."""
    boosts = Boosts(settings.further_concept)
    matches = concepts_in(question, settings)
    boost_concepts(boosts, matches, reader, settings, question.arch, scale=settings.concept)
    _boost_spellings(boosts, question, reader, settings)
    symbol_ids = candidates(question, reader, "symbol_words", symbol_weights(settings), settings.candidates)
    file_ids = candidates(question, reader, "file_words", file_weights(settings), settings.file_candidates)
    mains = _main_symbols({*file_ids, *boosts.files}, reader)
    hits = reader.symbols({*symbol_ids, *mains}) | boosts.hits
    ids = list(hits)
    # Where a concept covers the question, the order of its words tells nothing more.
    together = settings.neighbours * (1 - max((m.share for m in matches), default=0.0))
    words = score_rows(
        question, reader, "symbol_words", ids, symbol_weights(settings), settings, together=together
    )
    files = score_rows(
        question,
        reader,
        "file_words",
        list({h.file_id for h in hits.values()}),
        file_weights(settings),
        settings,
        together=together,
    )
    asked = frozenset(w for term in question.terms for spelling in term.spellings for w in spelling)
    context = _Context(question, reader, settings, boosts, asked, mains)
    return [
        _rank(hit, words.get(hit.id, NO_EVIDENCE), files.get(hit.file_id, NO_EVIDENCE), context)
        for hit in hits.values()
    ]


class _Context(msgspec.Struct, frozen=True):
    """What stays the same for all candidates of one question."""

    question: Question
    reader: Reader
    settings: RankingSettings
    boosts: Boosts
    #: All words of the question, in every spelling.
    asked: frozenset[str]
    #: Definitions that their files are about.
    mains: frozenset[int]


def _rank(hit: SymbolHit, words: Evidence, file: Evidence, context: _Context) -> Ranked:
    settings = context.settings
    main = hit.id in context.mains
    focus = 1 + settings.name_focus * (_focus(split(hit.name), context.asked) - 0.5)
    stem = hit.path.rsplit("/", 1)[-1].split(".", 1)[0]
    file_focus = 1 + settings.file_focus * (_focus(split(stem), context.asked) - 0.5)
    own = (1 - settings.file_share) * words.score * prior(hit, context.reader, settings) * focus
    around = settings.file_share * file.score * settings.roles.get(hit.role, 0.8) * file_focus
    extra, why = context.boosts.symbols.get(hit.id, (0.0, ""))
    file_extra, file_why = context.boosts.files.get(hit.file_id, (0.0, "")) if main else (0.0, "")
    if file_extra > extra:
        extra, why = file_extra, file_why
    coverage = max(words.coverage, file.coverage)
    extra *= settings.concept_alone + (1 - settings.concept_alone) * coverage
    full = 1 + settings.full_coverage * max(0.0, coverage - 0.6)
    score = (own + around * (1.0 if main else settings.not_main)) * full + extra
    score *= arch_factor(hit.arch, context.question.arch, settings)
    score *= 1 + settings.included * math.log1p(hit.included)
    return Ranked(hit, score, why, example=is_example(hit))


def _focus(words: Sequence[str], asked: frozenset[str]) -> float:
    """Share of a name's words that the question speaks of: 1 for a name that says nothing else."""
    return sum(w in asked for w in words) / max(len(words), 1)


def boost_concepts(
    boosts: Boosts,
    matches: Sequence[ConceptMatch],
    reader: Reader,
    settings: RankingSettings,
    arch: frozenset[str],
    *,
    scale: float,
) -> None:
    """Let each concept raise its definitions and its examples, less the further down its lists they stand."""
    for match in matches:
        value = scale * match.share
        second = value * settings.concept_example
        defined, shown = (second, value) if match.concept.shown else (value, second)
        for place, name in enumerate(match.concept.symbols):
            for hit, share in _definitions(name, reader, settings, arch):
                boosts.symbol(hit, defined * settings.concept_decay**place * share, match.concept.does)
        _boost_examples(boosts, match, shown, defined, reader, settings)


def _boost_examples(
    boosts: Boosts,
    match: ConceptMatch,
    value: float,
    defined: float,
    reader: Reader,
    settings: RankingSettings,
) -> None:
    """The examples (and headers) a concept names; where the corpus has none of them, those that use its symbols."""
    known = False
    for place, part in enumerate(match.concept.examples):
        files = reader.files_like(part)
        known = known or bool(files)
        share = settings.concept_decay**place / (1 + 0.1 * max(len(files) - 1, 0))
        header = part.endswith(_HEADERS)
        why = match.concept.does if header else f"shows how it {match.concept.does}"
        for file_id in files:
            boosts.file(file_id, (defined if header else value) * share, why)
    if not known:
        for name in match.concept.symbols[:3]:
            for ranked in examples_of(name, reader, scale=0.6 * value):
                boosts.file(ranked.hit.file_id, ranked.score, f"shows how it {match.concept.does}")


def _definitions(
    name: str, reader: Reader, settings: RankingSettings, arch: frozenset[str]
) -> Iterable[tuple[SymbolHit, float]]:
    """The likeliest definitions of a name, each with its share: 1 for the best, less for the others.

    A name that many files define, such as `Options`, tells little.
    """
    scored = sorted(
        (
            (prior(h, reader, settings) * arch_factor(h.arch, arch, settings), h)
            for h in reader.symbols_named([name])
        ),
        key=lambda pair: -pair[0],
    )
    crowd = 1 + settings.crowd * max(0, len({hit.path for _, hit in scored}) - _DEFINITIONS_OF_A_NAME)
    for worth, hit in scored[:_DEFINITIONS_OF_A_NAME]:
        yield hit, min(1.0, worth / scored[0][0]) ** 2 / crowd if scored[0][0] else 0.0


def _boost_spellings(boosts: Boosts, question: Question, reader: Reader, settings: RankingSettings) -> None:
    """Names in the question: written out, or as neighbouring words ("collective builder")."""
    tokens = _TOKEN.findall(question.text)
    prose = len(tokens) > len(question.names) + 2
    for name in question.names:
        for match in match_names(name, reader, settings, fuzzy=not prose)[:8]:
            if match.quality >= (settings.name_in_prose if prose else 0.0):
                _boost_name(
                    boosts, match, settings.written_name * match.quality**2, question, reader, settings
                )
    weights = {term.spellings[0]: term.weight for term in question.terms}
    for size in (5, 4, 3, 2):
        for at in range(len(tokens) - size + 1):
            part = " ".join(tokens[at : at + size])
            share = sum(weights.get((w,), 0.0) for w in query_words(part))
            for match in _joined(normal_name(part), reader):
                value = settings.joined_name * share**settings.concept_power
                _boost_name(boosts, match, value, question, reader, settings)


def _joined(norm: str, reader: Reader) -> list[NameMatch]:
    rows = reader.rows("SELECT name FROM names WHERE defined AND norm = ?", (norm,)) if len(norm) > 5 else []
    return [NameMatch(str(name), 0.95, "written as one name") for (name,) in rows]


def _boost_name(
    boosts: Boosts,
    match: NameMatch,
    value: float,
    question: Question,
    reader: Reader,
    settings: RankingSettings,
) -> None:
    for hit, share in _definitions(match.name, reader, settings, question.arch):
        likely = min(1.0, prior(hit, reader, settings))
        boosts.symbol(hit, value * share * likely, f"{match.how}: {match.name}")


def _main_symbols(file_ids: Iterable[int], reader: Reader) -> frozenset[int]:
    wanted = ",".join(map(str, file_ids))
    rows = reader.rows(f"SELECT main_symbol FROM files WHERE id IN ({wanted}) AND main_symbol > 0")
    return frozenset(int(str(row[0])) for row in rows)
