# SPDX-License-Identifier: Apache-2.0
"""Sections of Markdown files, and the one-line titles of an example list."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_cutlass.model import Section

_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_LISTED = re.compile(r"^\s*[*-]\s*\[([^\]]+)\]\(([^)]+)\)\s*(.*)$")
_SECTION_LIMIT = 4000
#: Histories of changes name everything and explain nothing.
_SKIPPED = re.compile(r"changelog|copyright|licen[cs]e|contributors", re.I)


def sections(text: str) -> list[Section]:
    """The headings of a file, each with the text up to the next."""
    lines = text.splitlines()
    heads: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(lines, start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        match = None if fenced else _HEADING.match(line)
        if match:
            heads.append((number, match[2]))
    ends = [n - 1 for n, _ in heads[1:]] + [len(lines)]
    return [
        Section(title, line, max(end, line), "\n".join(lines[line:end]).strip()[:_SECTION_LIMIT])
        for (line, title), end in zip(heads, ends, strict=True)
        if not _SKIPPED.search(title)
    ]


def example_list(text: str) -> Iterator[tuple[str, str]]:
    """(directory, title) of the entries of an `examples/README.md`."""
    directory, words = "", ""
    for line in [*text.splitlines(), "* [end](end)"]:
        match = _LISTED.match(line)
        if match:
            if directory and words:
                yield directory, " ".join(words.split())
            directory, words = match[2].strip("./ "), match[3]
        elif directory:
            words += " " + line.strip() if not line.startswith("#") else ""
