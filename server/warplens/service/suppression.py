# SPDX-License-Identifier: Apache-2.0
"""Findings the user does not want: settings, and comments beside the code.

A comment `// warplens: ignore WL109, scalar-access: reason` on a line silences those findings on that
line and the next; `ignore-file` instead of `ignore` silences them in the whole file. Without a list
everything is silenced.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Sequence

import msgspec

from warplens.service.build_messages import BUILD_OPTIONS, NOT_COMPILED
from warplens_tools.errors import InputError
from warplens_tools.evidence import Unknown
from warplens_tools.finding import Finding
from warplens_tools.micro.registry import all_tools
from warplens_tools.text import SourceText

_BEGINNING = re.compile(r"wl\d*")
_COMMENT = re.compile(r"(?://|/\*)\s*warplens:\s*(ignore-file|ignore)\b\s*([^:*]*?)\s*(?::|--|\*/|$)")


class Suppression(msgspec.Struct, frozen=True):
    """One comment: codes or slugs (empty for all), and the 1-based line it stands on (0 for the file)."""

    names: frozenset[str]
    line: int


def suppressions(text: SourceText) -> tuple[Suppression, ...]:
    """The suppression comments of a file."""
    if "warplens:" not in text.text:
        return ()
    found = []
    for number, line in enumerate(text.lines(), start=1):
        match = _COMMENT.search(line.rstrip("\r\n"))
        if match:
            names = frozenset(n.lower() for n in re.split(r"[,\s]+", match[2]) if n)
            found.append(Suppression(names, 0 if match[1] == "ignore-file" else number))
    return tuple(found)


def names_of(words: Iterable[str]) -> frozenset[str]:
    """Codes and slugs as they are compared; several may stand in one word with commas between."""
    return frozenset(name.lower() for word in words for name in re.split(r"[,\s]+", word) if name)


@functools.cache
def known_names() -> frozenset[str]:
    """The codes and slugs that a finding may have, in lower case."""
    pairs = [(tool.code, tool.slug) for tool in all_tools()] + [NOT_COMPILED, BUILD_OPTIONS]
    return frozenset(name.lower() for pair in pairs for name in pair)


def require_known(names: Iterable[str], where: str) -> None:
    """Refuse a name that no finding can have.

    Raises:
        InputError: names it, and the nearest that there is.
    """
    known = known_names()
    for name in sorted(names):
        if name.lower() not in known:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            remedy = f"did you mean {near[0]}?" if near else "`warplens explain` lists them"
            raise InputError(f"{where}: there is no check {name}", remedy=remedy)


def chosen(words: Iterable[str], where: str) -> frozenset[str]:
    """The codes and slugs that the words name; WL1 stands for all codes that begin with it.

    Raises:
        InputError: a word names no check.
    """
    found: set[str] = set()
    for name in names_of(words):
        begun = {code for code in known_names() if _BEGINNING.fullmatch(name) and code.startswith(name)}
        if not begun:
            require_known([name], where)
        found |= begun or {name}
    return frozenset(found)


def unknown_in(path: str, comments: Iterable[Suppression]) -> tuple[Unknown, ...]:
    """What the comments name that no finding can have."""
    said = []
    for comment in comments:
        for name in sorted(comment.names):
            try:
                require_known([name], "its comment")
            except InputError as error:
                place = f"{path}:{comment.line}" if comment.line else path
                said.append(Unknown(f"what to ignore at {place}", f"there is no check {name}", error.remedy))
    return tuple(said)


def wanted(
    findings: Iterable[Finding], comments: Sequence[Suppression], ignored: Iterable[str]
) -> tuple[Finding, ...]:
    """The findings that no comment and no setting silences."""
    off = {name.lower() for name in ignored}
    return tuple(
        f
        for f in findings
        if f.code.lower() not in off and f.slug not in off and not any(_covers(c, f) for c in comments)
    )


def _covers(comment: Suppression, finding: Finding) -> bool:
    near = comment.line in (0, finding.span.line, finding.span.line - 1)
    return near and (not comment.names or bool(comment.names & {finding.code.lower(), finding.slug}))
