# SPDX-License-Identifier: Apache-2.0
"""Reads what nvcc, its front end, the host compiler, ptxas and the linkers print into plain messages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from warplens_tools.evidence import CompilerMessage
from warplens_tools.toolchain.ptx import LineMap

Severity = Literal["error", "warning", "information"]
_SEVERITIES: dict[str, Severity] = {
    "error": "error",
    "fatal error": "error",
    "catastrophic error": "error",
    "internal error": "error",
    "fatal": "error",
    "warning": "warning",
    "info": "information",
    "remark": "information",
    "note": "information",
}
#: cudafe/cicc: "k.cu(3): error #20-D: identifier …"; the number is not printed for every error.
_FRONT_END = re.compile(
    r"^(?P<path>\S.*?)\((?P<line>\d+)\): (?P<severity>(?:catastrophic |internal )?error|warning|remark)"
    r"(?: (?P<code>#[\w-]+))?: (?P<text>.*)$"
)
#: gcc and clang: "k.cu:1:10: fatal error: …".
_HOST = re.compile(
    r"^(?P<path>[^\s:][^:]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<severity>fatal error|error|warning): (?P<text>.*)$"
)
#: "ptxas info    : (C7510) Potential …", "ptxas /t/k.ptx, line 7; error   : …", "nvcc fatal   : …".
_TOOL = re.compile(
    r"^(?P<tool>ptxas|nvcc|nvlink|cicc|cudafe\+\+|fatbinary)(?: (?P<path>\S.*?), line (?P<line>\d+);)?"
    r" *(?P<severity>fatal|error|warning|info) *: (?:\((?P<code>C\d+)\) )?(?P<text>.*)$"
)
#: ld: "m.cpp:(.text+0x1c): undefined reference to `f'", "/usr/bin/ld: cannot find -lcufft: No such file …".
_LINKER = re.compile(r"^\S.*?: (?P<text>(?:undefined reference to|multiple definition of|cannot find) .*)$")
_INSTANTIATED = re.compile(r"^\s+(?:detected during|instantiation|\[).*\bat line (\d+)(?: of (\S+))?$")
_FUNCTION = re.compile(r"in (?:the )?function '([^']+)'|for '([^']+)'$|^Stack size for .*function '([^']+)'")
_PTX_LINE = re.compile(r"\b(?:around )?line (\d+)\b")
#: ptxas' report of resources and times, which `warplens_tools.toolchain.ptxas` reads.
_REPORT = re.compile(
    r"bytes gmem|Compiling entry function|Function properties|Used \d+ registers|Compile time"
)
_QUALIFIERS = ("global", "device", "host", "shared", "constant", "managed", "grid_constant")


def parse_messages(
    text: str, *, directory: Path, ptx_lines: LineMap | None = None
) -> tuple[CompilerMessage, ...]:
    """The messages of one nvcc run, in order, without ptxas' resource report.

    Args:
        text: what nvcc printed on both streams.
        directory: its working directory, to make paths absolute.
        ptx_lines: the map of the kept PTX: ptxas' messages then name source lines.
    """
    lines = text.splitlines()
    found: list[CompilerMessage] = []
    for index, line in enumerate(lines):
        message = (
            _front_end(line, lines, index, directory)
            or _host(line, directory)
            or _tool(line, ptx_lines)
            or _linker(line)
        )
        if message is not None and message not in found:
            found.append(message)
    return tuple(found)


def _front_end(line: str, lines: list[str], index: int, directory: Path) -> CompilerMessage | None:
    match = _FRONT_END.match(line)
    if match is None or _TOOL.match(line):
        return None
    return CompilerMessage(
        severity=_SEVERITIES[match["severity"]],
        text=match["text"] + _instantiation(lines, index + 1),
        path=_absolute(match["path"], directory),
        line=int(match["line"]),
        column=_caret_column(lines, index + 1),
        code=match["code"] or "",
    )


def _instantiation(lines: list[str], start: int) -> str:
    """Where a template that the message speaks of was instantiated, outermost place."""
    places = [match for line in _indented(lines, start) if (match := _INSTANTIATED.match(line))]
    if not places:
        return ""
    line, path = places[-1].groups()
    return f" (instantiated at line {line}" + (f" of {Path(path.strip(chr(34))).name})" if path else ")")


def _indented(lines: list[str], start: int) -> Iterator[str]:
    for line in lines[start : start + 60]:
        if not line.startswith((" ", "\t")):
            return
        yield line


def _caret_column(lines: list[str], start: int) -> int:
    """Column of the caret under the quoted source line; 0 where there is none.

    The quoted line is preprocessed: `__global__` stands there as `__attribute__((global))`.
    """
    if start + 1 >= len(lines) or lines[start + 1].strip() != "^" or not lines[start].startswith("  "):
        return 0
    before = lines[start][2 : lines[start + 1].index("^")]
    for name in _QUALIFIERS:
        before = before.replace(f"__attribute__(({name}))", f"__{name}__")
    return len(before) + 1


def _host(line: str, directory: Path) -> CompilerMessage | None:
    match = _HOST.match(line)
    if match is None:
        return None
    return CompilerMessage(
        severity=_SEVERITIES[match["severity"]],
        text=match["text"],
        path=_absolute(match["path"], directory),
        line=int(match["line"]),
        column=int(match["column"] or 0),
    )


def _tool(line: str, ptx_lines: LineMap | None) -> CompilerMessage | None:
    match = _TOOL.match(line)
    if match is None or _REPORT.search(match["text"]):
        return None
    function = _FUNCTION.search(match["text"])
    place = _PTX_LINE.search(match["text"]) if match["tool"] == "ptxas" else None
    ptx_line = int(match["line"] or (place[1] if place else 0))
    source = ptx_lines.source(ptx_line) if ptx_lines is not None and ptx_line else None
    return CompilerMessage(
        severity=_SEVERITIES[match["severity"]],
        text=match["text"],
        path=source.path if source else "",
        line=source.line if source else 0,
        code=match["code"] or "",
        function=next(filter(None, function.groups()), "") if function else "",
    )


def _linker(line: str) -> CompilerMessage | None:
    match = _LINKER.match(line)
    return None if match is None else CompilerMessage(severity="error", text=match["text"])


def _absolute(path: str, directory: Path) -> str:
    return os.path.normpath(directory / path.strip('"'))
