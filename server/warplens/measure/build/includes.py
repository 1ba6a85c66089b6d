# SPDX-License-Identifier: Apache-2.0
"""Headers that a candidate adds: whose they may be; its host side is compared with the baseline's that has them too.

What such a header holds is then the same on both sides, whatever macros a candidate defines before it.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Sequence
from pathlib import Path

from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.evidence import BinaryEvidence
from warplens_tools.toolchain.locate import Toolchain

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(<[^<>\n]+>|\"[^\"\n]+\")[^\n]*$", re.MULTILINE)

#: Headers added, each with the number of the baseline's line before which it is to stand, counted from 0.
Added = tuple[tuple[int, str], ...]


#: Where host compilers have headers of their own, which those of the toolkit include.
_COMPILERS = (
    "/usr/include",
    "/usr/lib/gcc",
    "/usr/lib/gcc-cross",
    "/usr/lib/clang",
    "/nix/store",
    "/gnu/store",
)


def foreign(after: BinaryEvidence, before: BinaryEvidence, toolchain: Toolchain) -> str:
    """A file that the edited unit is built from and the baseline is not; "" if there is none.

    Headers of the toolkit, of CUTLASS and of the host compiler may be added: they are found by name in the search
    path, hold nothing of the user's, and what they do on the host is compared.
    """
    headers = toolchain.find("cuda_headers")
    allowed = [Path(headers.path).resolve()] if headers is not None else []
    allowed += [Path(folder) for folder in _COMPILERS]
    known = set(before.dependencies)
    for name in after.dependencies:
        # of hundreds of headers few are new, and every folder above one is looked at to resolve it
        if name in known or (path := Path(name).resolve()).name == Path(after.path).name:
            continue
        library = any(path.is_relative_to(root) for root in allowed)
        if not library and not {"cutlass", "cute"} & set(path.parts):
            return name
    return ""


def uses_cutlass(text: str) -> bool:
    """Whether a text includes headers of CUTLASS or CuTe, which take minutes and gigabytes to compile."""
    return any(re.match(r"[<\"](?:cute|cutlass)/", name) for name in _includes(text))


def added_includes(before: str, after: str) -> Added:
    """The headers that an edit adds, each where the edit has it among the baseline's lines, since what stands before
    and behind it does so on the host too; () where the edit removes or moves one of the text's own."""
    own, given = _places(before), _places(after)
    added: list[tuple[int, str]] = []
    passed = 0
    for line, name in given:
        if passed < len(own) and name == own[passed][1]:
            passed += 1
            continue
        first = own[passed - 1][0] + 1 if passed else 0
        last = own[passed][0] if passed < len(own) else before.count("\n") + 1
        there = _line_of(line, before, after)
        added.append((there if first <= there <= last and _is_outside(before, there) else first, name))
    return tuple(added) if passed == len(own) else ()


def with_includes(text: str, added: Added) -> str:
    """The text with these headers before its lines of those numbers."""
    lines = text.split("\n")
    for number, name in reversed(added):
        lines.insert(number, f"#include {name}")
    return "\n".join(lines)


def _line_of(line: int, before: str, after: str) -> int:
    """The baseline's line before which a line of the edit stands that the baseline has not."""
    return next(i1 for _, i1, _, j1, j2 in _blocks(before, after) if j1 <= line < j2)


@functools.lru_cache(maxsize=8)
def _blocks(before: str, after: str) -> Sequence[tuple[str, int, int, int, int]]:
    """What differs between two texts, line by line: asked for each header, and again once the text is built."""
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    return matcher.get_opcodes()


def _is_outside(text: str, line: int) -> bool:
    """Whether a line begins outside all braces."""
    code = without_comments(to_ascii("\n".join(text.split("\n")[:line])), keep_strings=False)
    return code.count("{") == code.count("}")


def _places(text: str) -> Sequence[tuple[int, str]]:
    """The numbers of the lines with an include, from 0, and what it names."""
    code = _code(text)
    return [(code.count("\n", 0, match.start()), match[1]) for match in _INCLUDE.finditer(code)]


def _includes(text: str) -> Sequence[str]:
    return [name for _, name in _places(text)]


def _code(text: str) -> str:
    return without_comments(to_ascii(text), keep_strings=True)
