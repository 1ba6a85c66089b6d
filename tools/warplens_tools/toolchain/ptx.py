# SPDX-License-Identifier: Apache-2.0
"""Reads the few things Warplens needs from PTX: entries' bounds, and source lines of PTX lines."""

from __future__ import annotations

import bisect
import re

import msgspec

from warplens_tools.evidence import SourceLine

_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_BOUND = re.compile(r"^\s*\.(maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", re.MULTILINE)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:.*?inlined_at\s+(\d+)\s+(\d+))?", re.MULTILINE)


def max_threads(ptx: str) -> dict[str, int]:
    """Threads per block that each entry was compiled for, by mangled name, where it says so."""
    bounds: dict[str, int] = {}
    for entry in _ENTRY.finditer(ptx):
        end = ptx.find("{", entry.end())
        bound = _BOUND.search(ptx, entry.end(), end if end >= 0 else len(ptx))
        if bound:
            bounds[entry[1]] = int(bound[2]) * int(bound[3] or 1) * int(bound[4] or 1)
    return bounds


class LineMap(msgspec.Struct, frozen=True):
    """The `.loc` directives of a PTX file, in file order."""

    #: 1-based PTX lines of the directives, ascending, and what each names.
    ptx_lines: tuple[int, ...]
    sources: tuple[SourceLine, ...]

    def source(self, ptx_line: int) -> SourceLine | None:
        """The source line that 1-based `ptx_line` came from, or None before the first directive."""
        index = bisect.bisect_right(self.ptx_lines, ptx_line) - 1
        return self.sources[index] if index >= 0 else None


def line_map(ptx: str) -> LineMap:
    """The map from PTX lines to source lines; an inlined place is given by its outermost known call."""
    files = {int(number): path for number, path in _FILE.findall(ptx)}
    lines: list[int] = []
    sources: list[SourceLine] = []
    line, at = 1, 0
    for match in _LOC.finditer(ptx):
        line += ptx.count("\n", at, match.start() + len(match[0]) - len(match[0].lstrip()))
        at = match.start() + len(match[0]) - len(match[0].lstrip())
        number, where = (match[3], match[4]) if match[3] else (match[1], match[2])
        if int(number) in files:
            lines.append(line)
            sources.append(SourceLine(files[int(number)], int(where)))
    return LineMap(tuple(lines), tuple(sources))
