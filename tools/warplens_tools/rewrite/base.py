# SPDX-License-Identifier: Apache-2.0
"""What a rewrite is.

One file per rewrite, listed in `warplens_tools.rewrite.registry`. The module's docstring is its page
and holds one sample in two fenced blocks, the first before and the second after; a test applies the
rewrite to the first and compares with the second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.finding import Fix
from warplens_tools.text import SourceText, TextEdit


class Target(msgspec.Struct, frozen=True):
    """What a rewrite is asked to change in a kernel.

    `names` are the arrays or parameters it concerns, all that apply when empty; `lines` restrict it to
    places on these 1-based lines, anywhere in the kernel when empty.
    """

    names: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()


EVERYWHERE = Target()


class RewriteResult(msgspec.Struct, frozen=True):
    """The edits of one rewrite; `refused` says why there are none."""

    edits: tuple[TextEdit, ...] = ()
    title: str = ""
    refused: str = ""
    #: How results may change (e.g. "double arithmetic becomes float"); "" if bit-identical by construction.
    caveat: str = ""


class Refused(Exception):  # noqa: N818 - control flow inside the rewrites, not an error of the user's
    """The rewrite does not apply; the message says why, for the user."""


#: The caveat of what adds up otherwise than the program did.
REORDERED = "sums are added up in another order: results may differ in the last digits"

Apply = Callable[[SourceText, SourceModel, Kernel, Target], RewriteResult]


#: The variable that the thread's number is given to.
_NUMBER = re.compile(r"\b(\w+)\s*=[^;=]*\bthreadIdx\s*\.\s*x\b[^;]*;")
#: Threads along y; a `blockIdx.y` alone tells one problem of many from another.
_LINES = re.compile(r"\bblockIdx\s*\.\s*[yz]\b")
#: The variable that the number of a block along another axis is given to.
_ROW_OF_BLOCKS = re.compile(r"\b(\w+)\s*=[^;=]*\bblockIdx\s*\.\s*[yz]\b[^;]*;")
#: Loops that follow each other walk a row of the thread's own again and again.
_PASSES = 2
#: Loops' heads, whether another loop follows as the body, and braces.
_HEADS = re.compile(r"[{}]|\bfor\s*\([^{}]*?;[^{}]*?;[^{};]*?\)\s*(?=(for\b)?)")
_COUNTER = re.compile(r"\bfor\s*\(\s*(?:[\w:]+\s+)*(\w+)\s*=")
#: A loop's counter, and what it stays below.
_ENDING = re.compile(r"\bfor\s*\([^;]*;\s*(\w+)\s*<\s*(\w+)\s*;")
_NARROW = re.compile(r"half|bfloat16|bf16|\b(?:u?char|u?int8_t|short|u?int16_t|template)\b")
#: A loop that a condition on elements lets some threads have.
_ASKED = re.compile(r"\bif\s*\([^;{}]*\w\s*\[[^;{}]*\)\s*\{?\s*for\b")
_WORDS = re.compile(r"[A-Za-z_]\w*")
_GIVEN = re.compile(r"\b(\w+)\s*=(?!=)([^;=]*?)(?=;|,\s*\w+\s*=)")
#: An element, whose index may have elements in it: `table[rows[i] * width + c]`.
_ELEMENT = re.compile(r"\b(\w+)\s*\[(?=((?:[^\[\]]|\[[^\[\]]*\])*)\])")
#: Where a row ends, as the next one's begin.
_ENDS = re.compile(r"\w\s*\[[^\]]*\+\s*1\s*\]")
_PLANE = re.compile(r"\bthreadIdx\s*\.\s*y\b")


def always(code: str) -> float:
    """The doubt of a rewrite that is as likely on any kernel that it fits."""
    del code
    return 1.0


def along_one_axis(code: str) -> float:
    """What a rewrite that gives an output to several threads is worth: little where outputs lie in a plane, by two
    axes or by one number that is divided, or walk windows, for there are enough of them, and neighbours share operands
    already; less where data say which threads have a loop at all, for most may have none, and where all threads walk
    the same elements, which is no row of their own.
    """
    if _PLANE.search(code):
        return 0.1
    if _ASKED.search(code):
        return 0.3
    number = _NUMBER.search(code)
    if slides(code) < 1.0:
        return 0.1
    if _walks_alike(code):
        return 0.3
    divided = number is not None and re.search(rf"\b{number[1]}\b\s*[/%]", code[number.end() :])
    if divided and _nests(code) < _PASSES and not _stores_along(code) and not _in_pieces(code):
        return 0.1
    return 0.5 if multiplies(code) else 1.0


def _in_pieces(code: str) -> bool:
    """Whether a number that is divided says which row is the thread's own, all of it: `x[(n * C + g * D + c) * W + i]`
    of a loop `c < D`. No window slides from one to the next then, and no operand is another's too.
    """
    number = _NUMBER.search(code)
    if number is None:
        return False
    digits = {m[1] for m in _GIVEN.finditer(code) if re.search(rf"\b{number[1]}\b\s*[/%]", m[2])}
    walked = [words & digits for words in _walked(code[number.end() :])]
    if not digits or not walked or any(words != walked[0] or not words for words in walked):
        return False
    ends = {m[1]: m[2] for m in _ENDING.finditer(code)}
    for digit in digits:
        for found in re.finditer(rf"\b{digit}\s*(?:\*\s*(\w+)\s*)?\+\s*(\w+)\b", code):
            if found[2] in ends and found[1] != ends[found[2]]:
                return False
    return True


def multiplies(code: str) -> bool:
    """Whether a loop walks elements of the thread's own, and others of a row of blocks or of a loop over outputs around
    it: a product, whose operands are shared along both axes.
    """
    number = _NUMBER.search(code)
    if number is None:
        return False
    rest = code[number.end() :]
    walked = _walked(rest)
    own, counters = _made_of({number[1]}, code), set(_COUNTER.findall(code))
    for row in (*(m[1] for m in _ROW_OF_BLOCKS.finditer(code)), *_stored_along(code)):
        mine = _made_of({row}, code)
        shared = (w for w in walked if w & mine and not w & own and w & counters - {row})
        if any(True for _ in shared) and any(w & own and not w & mine for w in walked):
            return True
    return False


def _made_of(names: set[str], code: str) -> set[str]:
    """Names, and those that are given something made of them."""
    found = set(names)
    for _ in range(2):
        found |= {m[1] for m in _GIVEN.finditer(code) if found & set(_WORDS.findall(m[2]))}
    return found - set(_COUNTER.findall(code)) | names


def _walked(code: str) -> list[set[str]]:
    """The words of each element that a loop walks, its array's name among them."""
    counters = set(_COUNTER.findall(code))
    # `int p = t + k` is a place that is walked, too
    counters |= {
        m[1] for m in _GIVEN.finditer(code) if "[" not in m[2] and counters & set(_WORDS.findall(m[2]))
    }
    elements = ((m[1], set(_WORDS.findall(m[2]))) for m in _ELEMENT.finditer(code))
    return [words | {name} for name, words in elements if words & counters]


def slides(code: str) -> float:
    """What sharing out a thread's loop is worth: little where it walks a window around the thread's own number, for
    neighbours walk nearly the same, side by side, and there are as many of them as elements. Not where the number is
    how far it walks less, as in a correlation by lags, of which there are few.
    """
    number = _NUMBER.search(code)
    if number is None:
        return 1.0
    own, rest = number[1], code[number.end() :]
    if re.search(rf";\s*\w+\s*(?:<=?\s*\w+\s*-\s*{own}\s*;|\+\s*{own}\s*<)", rest):
        return 1.0
    counters = "|".join(map(re.escape, set(_COUNTER.findall(rest)))) or "$"
    # `column + i * columns` is a column, not a window
    after = rf"(?<![*/%\w.])(?<![*/%] )\b(?:{counters})\s*\+\s*{own}\b(?!\s*[*/%])"
    # and of `width * row + i` it is the row
    beside = rf"(?<![*/%\w.])(?<![*/%] )\b{own}\s*[-+]\s*(?:{counters})\b(?!\s*\*)|{after}"
    return 0.1 if re.search(rf"{beside}|\b{own}\s*-\s*[A-Za-z_]", rest) else 1.0


def of_own_rows(code: str) -> float:
    """What it is worth to give a thread's walk to a warp: little where neighbours walk side by side already, each a
    column that is only added to where a row begins, `table[row * columns + c]`.
    """
    number = _NUMBER.search(code)
    if number is None:
        return 1.0
    # the number itself, and counters that begin at it
    own = "|".join({number[1], *re.findall(rf"\b(\w+)\s*=\s*{number[1]}\s*;", code)})
    own = rf"\b(?:{own})\b"
    beside = re.search(rf"\+\s*{own}\s*\]|\[\s*{own}\s*\+[^\]]*\*", code)
    return 0.1 if beside and not re.search(rf"{own}\s*\*|\*\s*{own}", code) else 1.0


def of_own_columns(code: str) -> float:
    """What it is worth to split columns: less where all threads walk the same elements, or windows that slide."""
    return slides(code) * (0.3 if _walks_alike(code) else 1.0)


def of_shared_operands(code: str) -> float:
    """What tiles of operands are worth where outputs lie on one axis: as much as elsewhere where all threads walk the
    same elements, little where each walks a row or a column of its own, which a tile only turns, or a window.
    """
    number = _NUMBER.search(code)
    if number is None or _PLANE.search(code) or _LINES.search(code) or _walks_alike(code):
        return 1.0
    if slides(code) < 1.0:
        return 0.2
    own = _made_of({number[1]}, code)
    return 0.4 if any(not words & own for words in _walked(code[number.end() :])) else 0.3


def of_alike_rows(code: str) -> float:
    """The same of rows that all threads walk alike, which are worth it where they are rows and not single elements."""
    number, counters = _NUMBER.search(code), set(_COUNTER.findall(code))
    own = _made_of({number[1]}, code) if number is not None else set[str]()
    rows = (w for w in _walked(code) if not w & own and len(w & counters) > 1)
    return 1.0 if any(True for _ in rows) else of_shared_operands(code)


def of_long_rows(code: str) -> float:
    """`along_one_axis` for a whole block a row: less where data say where a row ends, as in a sparse matrix, for such
    rows are short.
    """
    return along_one_axis(code) * (0.5 if _ENDS.search(code) else 1.0)


def _walks_alike(code: str) -> bool:
    """Whether no element that a loop walks rests on the thread's number."""
    number = _NUMBER.search(code)
    if number is None:
        return False
    rest, own = code[number.end() :], {number[1]}
    for _ in range(2):
        own |= {m[1] for m in _GIVEN.finditer(rest) if own & set(_WORDS.findall(m[2]))}
    walked = _walked(rest)
    return bool(walked) and not any(words & own for words in walked)


def of_single_outputs(code: str) -> float:
    """What a patch of outputs is worth: nothing shared where a thread writes a row of them."""
    return 0.1 if _stores_along(code) else 1.0


def _stores_along(code: str) -> bool:
    """Whether a loop writes an element of its own in each step: a row of outputs, not one."""
    return any(True for _ in _stored_along(code))


def _stored_along(code: str) -> Iterator[str]:
    """The counters of loops that do."""
    for name in _COUNTER.findall(code):
        if re.search(rf"\w\[[^\]=]*\b{name}\b[^\]=]*\]\s*[-+*/]?=(?!=)", code):
            yield name


def along_narrow_rows(code: str) -> float:
    """The same where rows are walked in vectors: more where elements are narrow, for a warp's load of single ones is
    half a line or less.
    """
    return along_one_axis(code) * (1.0 if _NARROW.search(code) else 0.8)


def along_narrow_long_rows(code: str) -> float:
    """Both: a whole block a row, in vectors."""
    return along_narrow_rows(code) * (0.5 if _ENDS.search(code) else 1.0)


def in_a_plane(code: str) -> float:
    """What several outputs a thread are worth: little on a line, where there are seldom threads to spare, unless there
    are many lines, or outputs whose windows overlap.
    """
    if _PLANE.search(code):
        return 1.0
    return 0.6 if _LINES.search(code) or slides(code) < 1.0 else 0.2


def in_planes_or_rows(code: str) -> float:
    """The same where a thread that walks a row of outputs has what would be a plane of threads."""
    return 1.0 if _stores_along(code) else in_a_plane(code)


def in_a_divided_plane(code: str) -> float:
    """The same where a number that is divided into the indices is numbered along axes first: outputs that walk windows
    lie in a plane then.
    """
    number = _NUMBER.search(code)
    divided = number is not None and re.search(rf"\b{number[1]}\b\s*[/%]", code[number.end() :])
    return 1.0 if divided and _COUNTER.search(code) else in_a_plane(code)


def _nests(code: str) -> int:
    """How many loops follow each other, those inside others not counted."""
    depths, depth = list[int](), 0
    nested = False
    for found in _HEADS.finditer(code):
        if found[0] in "{}":
            depth += 1 if found[0] == "{" else -1
            continue
        if not nested:
            depths.append(depth)
        nested = found[1] is not None
    return depths.count(min(depths)) if depths else 0


def nowhere_apart(kernel: Kernel) -> Sequence[Target]:
    """The sites of a rewrite that does all it can in a kernel at once."""
    del kernel
    return ()


class Rewrite(msgspec.Struct, frozen=True):
    """A deterministic edit of one kernel. `apply` never raises on code it cannot change: it refuses."""

    slug: str
    title: str
    apply: Apply
    #: Slugs of the findings it answers.
    answers: Sequence[str] = ()
    #: Targets to try apart, beside the kernel as a whole, where doing everything at once is not always best.
    sites: Callable[[Kernel], Sequence[Target]] = nowhere_apart
    #: The resource ("dram", "l2", "sm") at whose peak nothing is left to win; "" for none.
    useless_at: str = ""
    #: What is expected of it where no finding asks for it: the chance that it is right and faster, and by how much
    #: it then is. The defaults say: seldom right, and little to gain.
    chance: float = 0.1
    gain: float = 1.05
    #: By how much the chance is less on a kernel of that code, whoever asks for it: 1 for not at all.
    likely: Callable[[str], float] = always
    #: Values that each constant it brings may have, by its name in the edits ("kTileDepth"); () for one that must stay
    #: as it is. Values that do not fit the card are left out by the search.
    ranges: Mapping[str, Sequence[int]] = {}
    #: Whether results are off by more than rounding: the search tries it where a lower precision is allowed.
    lowers: bool = False
    #: Whether a kernel executes less after it, which saves energy also where something else bounds its time.
    spares: bool = False

    def fixes(
        self, text: SourceText, model: SourceModel, kernel: Kernel, target: Target = EVERYWHERE
    ) -> tuple[Fix, ...]:
        """What a finding offers of this rewrite: nothing where it refuses."""
        result = self.apply(text, model, kernel, target)
        title = result.title or self.title
        return (Fix(title, self.slug, result.edits, result.caveat),) if result.edits else ()
