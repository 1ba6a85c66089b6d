"""Reads the glossaries: one short description in words of the field for each part of CUTLASS.

An entry is a line `what it does: words`, continued on lines that begin with a blank, and a line `= targets`,
continued likewise: names of definitions, and parts of paths (with a slash or a suffix) of files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_cutlass.concepts.model import Concept

_ENTRY = re.compile(r"^(?P<does>[^\s=:][^:\n]*):(?P<words>.*(?:\n .*)*)\n= ?(?P<targets>.*(?:\n .*)*)", re.M)


def entries(text: str, *, shown: bool = False) -> Iterator[Concept]:
    """The concepts of one glossary; `shown` where it is one of examples."""
    for match in _ENTRY.finditer(text):
        targets = match["targets"].split()
        yield Concept(
            does=match["does"],
            phrases=(),
            symbols=tuple(t for t in targets if "/" not in t and "." not in t),
            examples=tuple(t for t in targets if "/" in t or "." in t),
            words=" ".join(match["words"].split()),
            shown=shown,
        )
