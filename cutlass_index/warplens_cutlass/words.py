# SPDX-License-Identifier: Apache-2.0
"""Words of identifiers, prose and queries: one splitting for the index and for the questions.

`TmaWarpSpecializedPingpong` gives tma warp specialized pingpong; `SM80_16x8x16_F32F16F16F32_TN` gives
sm80 16x8x16 f32 f16 f16 f32 tn; `m64n128k16` gives 64x128x16. Words are lower case with a light stem,
so that *schedulers* and *scheduler*, *swizzled* and *swizzle* meet.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+x\d+(?:x\d+)*|\d*x?[A-Za-z]+\d*|\d+(?:\.\d+)?")
_PIECE = re.compile(
    r"[Mm]\d+[Nn]\d+[Kk]\d+"
    r"|\d+x\d+(?:x\d+)*"
    r"|[Uu]\d+[Xx]\d+"
    r"|3[Xx]TF32|(?:NV|MX)?[Ff][Pp]\d+"
    r"|(?:SM|Sm|sm)_?\d{2,3}a?(?![0-9])"
    r"|[Ee]\d[Mm]\d|TF32|BF16|tf32|bf16|[FSUB]\d+(?=[FSUBET_]|$)"
    r"|[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+"
)
_MNK = re.compile(r"m(\d+)n(\d+)k(\d+)")

#: Words of questions that say nothing about code.
STOP_WORDS = frozenset(
    """
    a an and any are as at be been but by can could do does doing for from give get given has have how i if
    in into is it its just like make me my need needs of on one only or our out please show so some than
    that the their them then there these they thing this those to too up us use used uses using want was way
    we what when where which while who why will with without would you your cute cutlass cuda nvidia code
    implement implementation implemented write writing find looking look kind best good right
    """.split()  # noqa: SIM905
)
#: The same for identifiers and prose of the corpus; the index keeps every other word.
INDEX_STOP_WORDS = frozenset(
    """
    a an and are as at be by for from in is it of on or that the this to with will which const int void auto
    static constexpr inline return typename template class struct using namespace bool true false uint32
    uint64 int32 int64 size std public private if else while do
    """.split()  # noqa: SIM905
)
_BRITISH = (("isation", "ization"), ("ised", "ized"), ("ise", "ize"), ("ising", "izing"), ("our", "or"))


@functools.lru_cache(maxsize=65536)
def split(identifier: str) -> tuple[str, ...]:
    """The words of one identifier, in order, stemmed."""
    words: list[str] = []
    for piece in _PIECE.findall(identifier):
        lower = piece.lower().replace("sm_", "sm")
        shape = _MNK.fullmatch(lower)
        words.append("x".join(shape.groups()) if shape else stem(lower))
    return tuple(words)


@functools.lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """A light stem: plural, -ing, -ed and British spelling fold; short words and codes stay."""
    if len(word) < 4 or word[-1].isdigit():
        return word
    word = _american(word)
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if word.endswith(("ation", "ition")) and len(word) > 7:
        return _verb(word)
    for suffix in ("ing", "ed"):
        base = word.removesuffix(suffix)
        if base != word and len(base) >= 4 and any(c in "aeiouy" for c in base):
            return _undouble(base)
    for suffix in ("er", "or"):
        base = word.removesuffix(suffix)
        if base != word and len(base) >= 6:
            return _undouble(base)
    return word.removesuffix("e") if len(word) > 4 else word


def _verb(noun: str) -> str:
    """What a noun on -ation shares with its verb: rotation and rotate, quantization and quantize, multiplication."""
    if noun.endswith("ization"):
        return noun[:-5]
    return noun[:-7] + "y" if noun.endswith(("plication", "fication")) else noun[:-3]


def _american(word: str) -> str:
    for british, american in _BRITISH[:4]:
        if word.endswith(british) and len(word) > len(british) + 3:
            return word[: -len(british)] + american
    return word


def _undouble(base: str) -> str:
    if len(base) > 4 and base[-1] == base[-2] and base[-1] in "bdgmnprt":
        return base[:-1]
    return base.removesuffix("e")


def normal_name(text: str) -> str:
    """A name without case, underscores and punctuation: what split and joined spellings share."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def text_words(text: str) -> list[str]:
    """The words of prose or code, in order, repeated as they occur, without `INDEX_STOP_WORDS`."""
    return [w for token in _WORD.findall(text) for w in split(token) if w not in INDEX_STOP_WORDS]


def unique_words(tokens: Iterable[str], limit: int) -> list[str]:
    """The words of many identifiers, each once, in order, at most `limit`."""
    seen: dict[str, None] = {}
    for token in tokens:
        for word in split(token):
            if word not in INDEX_STOP_WORDS and len(word) > 1:
                seen.setdefault(word)
        if len(seen) >= limit:
            break
    return list(seen)[:limit]


def edit_distance(a: str, b: str) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours between two names.

    >>> edit_distance("ldsm", "lsdm"), edit_distance("copy", "copies")
    (1, 3)
    """
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        last, before, row = before, row, [i] + [0] * len(b)
        for j, y in enumerate(b, start=1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]
