# SPDX-License-Identifier: Apache-2.0
"""Headers that a candidate adds: whose they may be; its host side is compared with the baseline's that has them too.

What such a header holds is then the same on both sides, whatever macros a candidate defines before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.evidence import BinaryEvidence
from warplens_tools.toolchain.locate import Toolchain

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(<[^<>\n]+>|\"[^\"\n]+\")[^\n]*$", re.MULTILINE)

#: Headers added, each with the number of the baseline's own that stand before it.
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
        path = Path(name).resolve()
        if name in known or path.name == Path(after.path).name:
            continue
        library = any(path.is_relative_to(root) for root in allowed)
        if not library and not {"cutlass", "cute"} & set(path.parts):
            return name
    return ""


def uses_cutlass(text: str) -> bool:
    """Whether a text includes headers of CUTLASS or CuTe, which take minutes and gigabytes to compile."""
    return any(re.match(r"[<\"](?:cute|cutlass)/", name) for name in _includes(text))


def added_includes(before: str, after: str) -> Added:
    """The headers that an edit adds between the text's own; () where it removes or moves one of these."""
    own, given = _includes(before), _includes(after)
    added: list[tuple[int, str]] = []
    passed = 0
    for name in given:
        if passed < len(own) and name == own[passed]:
            passed += 1
        else:
            added.append((passed, name))
    return tuple(added) if passed == len(own) else ()


def with_includes(text: str, added: Added) -> str:
    """The text with these headers behind its own."""
    ends = [match.end() for match in _INCLUDE.finditer(_code(text))]
    # from the last on, so that places stay true and those at one place stay in order
    for passed, name in reversed(added):
        at = ends[passed - 1] if passed else 0
        line = f"\n#include {name}" if passed else f"#include {name}\n"
        text = text[:at] + line + text[at:]
    return text


def _includes(text: str) -> Sequence[str]:
    return [match[1] for match in _INCLUDE.finditer(_code(text))]


def _code(text: str) -> str:
    return without_comments(to_ascii(text), keep_strings=True)
