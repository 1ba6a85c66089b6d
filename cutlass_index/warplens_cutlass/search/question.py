"""What a query asks: its words with their other spellings, its names, its architectures."""

from __future__ import annotations

import re

import msgspec

from warplens_cutlass.extract.architecture import GENERATIONS, architectures
from warplens_cutlass.search.reader import Reader
from warplens_cutlass.settings import RankingSettings
from warplens_cutlass.vocabulary import query_words, synonyms
from warplens_cutlass.words import normal_name, split

_NAME = re.compile(r"~?[A-Za-z_]\w*(?:::~?\w+)*|\d+x\d+x\d+\w*")
_CODE_LIKE = re.compile(r"_|::|[a-z][A-Z]|^\d+x\d+x\d+_")
_BRANDS = frozenset(
    ("cute", "cutlass", "deepseek", "flashattention", "pytorch", "tensorrt", "geforce", "nvlink")
)
_DEVICES = {"h100": "sm90", "h200": "sm90", "b200": "sm100", "gb200": "sm100", "a100": "sm80", "v100": "sm70",
            "t4": "sm75", "l40": "sm89", "5090": "sm120", "5080": "sm120", "5070": "sm120", "4090": "sm89"}  # fmt: skip


class Term(msgspec.Struct, frozen=True):
    """One word of the query: `spellings[0]` is the word itself, the rest its synonyms."""

    spellings: tuple[tuple[str, ...], ...]
    #: Share of the query's meaning that the word carries; all terms sum to 1.
    weight: float


class Question(msgspec.Struct, frozen=True):
    """A parsed query."""

    text: str
    terms: tuple[Term, ...]
    #: Tokens that look like identifiers: "SM80_CP_ASYNC", "cute::copy", "TiledMma".
    names: tuple[str, ...]
    arch: frozenset[str]
    words: tuple[str, ...]

    @property
    def norm(self) -> str:
        """The whole query spelled as one name."""
        return normal_name(self.text)


def ask(text: str, reader: Reader, settings: RankingSettings, arch: str = "") -> Question:
    """Parse a query against the vocabulary of one corpus."""
    words = query_words(text)
    known = [w for w in words if _weight(w, reader) > 0]
    unknown = [w for w in words if w not in known]
    spelled = [_spellings(w, reader) for w in known] + [_repaired(w, reader) for w in unknown]
    weighted = [(s, _weight_of(s, reader, settings)) for s in spelled if s]
    total = sum(weight for _, weight in weighted) or 1.0
    devices = frozenset(a for w in words if (a := _DEVICES.get(w)))
    return Question(
        text=text,
        terms=tuple(Term(s, weight / total) for s, weight in weighted if weight > 0),
        names=tuple(
            dict.fromkeys(t for t in _NAME.findall(text) if _CODE_LIKE.search(t) and t.lower() not in _BRANDS)
        ),
        arch=frozenset(architectures(f"{text} {arch}")) | devices,
        words=tuple(words),
    )


def _weight(word: str, reader: Reader) -> float:
    return max([reader.idf(word), *(0.01 for s in synonyms().get(word, ()) if all(reader.idf(w) for w in s))])


def _weight_of(spellings: tuple[tuple[str, ...], ...], reader: Reader, settings: RankingSettings) -> float:
    """A word as rare as its commonest known spelling, so that a slangy synonym does not outweigh the rest."""
    values = [min(reader.idf(w) for w in s) for s in spellings]
    own = values[0]
    generation = spellings[0][0] in GENERATIONS or spellings[0][0].startswith("sm")
    weight = own if own > 0 else min((v for v in values if v > 0), default=0.0)
    technical = max(reader.technical(w) for s in spellings for w in s)
    prose = settings.prose
    return float(
        (weight * (0.8 if generation else 1.0) * (prose + (1 - prose) * technical)) ** settings.rarity
    )


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
