"""Names what code does by hand: concepts by their traces, PTX operations by the corpus, known symbols by name."""

from __future__ import annotations

import functools
import re

import msgspec

from warplens_cutlass.concepts import CONCEPTS, Concept
from warplens_cutlass.extract.body import ptx_of_text
from warplens_cutlass.search.structure import facts_of
from warplens_cutlass.words import split


class Seen(msgspec.Struct, frozen=True):
    """A concept seen in code, and the 1-based line (of the text given) of its first trace."""

    concept: Concept
    line: int


class CodeFacts(msgspec.Struct, frozen=True):
    """All that was recognised in a piece of code, the most telling first."""

    seen: tuple[Seen, ...]
    #: PTX operations with their qualifiers, in order.
    ptx: tuple[str, ...]
    identifiers: tuple[str, ...]
    #: Names of its functions and the words of its comments.
    prose: str = ""

    def sentences(self) -> tuple[str, ...]:
        """What it does by hand, for people: "loads matrix fragments with ldmatrix (line 3)"."""
        return tuple(f"{s.concept.does} (line {s.line})" for s in self.seen)


_IDENTIFIER = re.compile(r"[A-Za-z_]\w{3,}")


def recognise(code: str) -> CodeFacts:
    """Look at a kernel, a selection or loose lines; the text need not compile."""
    structure = {f.name: f.line for f in reversed(facts_of(code))}
    seen = [s for c in CONCEPTS if (s := _see(c, code, structure))]
    superseded = {name for s in seen for name in s.concept.supersedes}
    kept = [s for s in seen if s.concept.does not in superseded]
    kept.sort(key=lambda s: -s.concept.weight)
    return CodeFacts(
        seen=tuple(kept),
        ptx=tuple(dict.fromkeys(ptx_of_text(_assembly(code)))),
        identifiers=tuple(dict.fromkeys(_IDENTIFIER.findall(code))),
        prose=_prose(code),
    )


def _prose(code: str) -> str:
    functions = re.findall(r"(?:__global__|__device__)[^;{(]*?\b(\w+)\s*\(", code)
    comments = re.findall(r"//([^\n]*)|/\*(.*?)\*/", code, re.S)
    words = [" ".join(split(name)) for name in functions[:4]] + [a or b for a, b in comments[:6]]
    return " ".join(" ".join(words).split()[:40])


def _see(concept: Concept, code: str, structure: dict[str, int]) -> Seen | None:
    for name in concept.structure:
        if name in structure:
            return Seen(concept, structure[name])
    for patterns in concept.traces:
        matches = [_compiled(p).search(code) for p in patterns]
        first = matches[0] if matches else None
        if first is not None and all(matches):
            return Seen(concept, code.count("\n", 0, first.start()) + 1)
    return None


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _assembly(code: str) -> str:
    """The text inside `asm` statements; all of it where there is none (bare PTX)."""
    if "asm" not in code:
        return code if re.search(r"^\s*[a-z]+\.[a-z0-9_.:]+\s+[%\[{]", code, re.M) else ""
    return " ".join(re.findall(r'"((?:[^"\\]|\\.)*)"', code[code.index("asm") :]))
