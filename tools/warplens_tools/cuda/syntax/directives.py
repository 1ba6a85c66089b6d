# SPDX-License-Identifier: Apache-2.0
"""What the preprocessor would read: `#define`, `#include`, and which lines an `#if` leaves out.

All directives are blanked from the text that tree-sitter sees: in the middle of a statement they are
what breaks its parse. Of the branches of an `#if` that cannot be decided here all stay that leave the
text well formed; at least one does. The default of a macro, `#ifndef FAST` and `#define FAST 1`, decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from warplens_tools.cuda.syntax.expression import evaluate

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*([a-z_]*)((?:\\[ \t]*\n|[^\n])*)", re.MULTILINE)
_DEFINE = re.compile(r"(?:\\[ \t]*\n|[ \t])*([A-Za-z_]\w*)(\((?:[^()]*)\))?")
_INCLUDE = re.compile(r'\s*(?:"([^"\n]*)"|<([^>\n]*)>)')
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_UNDEFINED = re.compile(r"!\s*defined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_NAME = re.compile(r"[A-Za-z_]\w*")
_MAX_NESTING = 64
_BRACKETS = re.compile(r"[(){}]")

#: True under nvcc, whatever the file says; names mapped to None are undefined there.
_UNDER_NVCC: dict[str, str | None] = {
    "__CUDACC__": "1",
    "__NVCC__": "1",
    "__cplusplus": "201703L",
    "__HIPCC__": None,
    "__HIP__": None,
    "__HIP_PLATFORM_AMD__": None,
    "__HIP_PLATFORM_HCC__": None,
    "__HIP_DEVICE_COMPILE__": None,
    "__CUDACC_RTC__": None,
    "__CLING__": None,
}


class Macro(msgspec.Struct, frozen=True):
    """One `#define`. `parameters` is None for an object-like macro. Offsets are code points."""

    name: str
    parameters: tuple[str, ...] | None
    body: str
    name_start: int
    body_start: int
    body_end: int
    start: int


class IncludeLine(msgspec.Struct, frozen=True):
    """One `#include`, with the offsets of its line and of its target."""

    target: tuple[int, int]
    system: bool
    start: int
    end: int


class Directives(msgspec.Struct, frozen=True):
    """Every directive of a text."""

    macros: tuple[Macro, ...]
    includes: tuple[IncludeLine, ...]
    undefined: frozenset[str]
    #: Offsets to blank: the directives themselves and what they leave out.
    blanked: tuple[tuple[int, int], ...]
    #: Offsets of branches that stay although their condition is unknown.
    conditional: tuple[tuple[int, int], ...]
    pragmas: tuple[tuple[int, str], ...]


class _Branch(msgspec.Struct):
    start: int
    truth: bool | None
    #: The macro that it asks not to be defined.
    unless: str = ""
    end: int = -1


class _Reader:
    """Reads directives in order, with the macros defined so far and the open `#if` groups."""

    def __init__(self, code: str, defines: Mapping[str, str]) -> None:
        self.code = code
        self.known: dict[str, str | None] = {**_UNDER_NVCC, **defines}
        self.groups: list[list[_Branch]] = []
        #: How many open branches are left out, and how many are undecided.
        self.dead = self.unsure = 0
        self.macros: list[Macro] = []
        self.includes: list[IncludeLine] = []
        #: Names that are undefined again, with where.
        self.undefined: dict[str, int] = {}
        self.blanked: list[tuple[int, int]] = []
        self.conditional: list[tuple[int, int]] = []
        self.pragmas: list[tuple[int, str]] = []

    def active(self) -> bool:
        return self.dead == 0

    def certain(self) -> bool:
        return self.dead == self.unsure == 0

    def enter(self, group: list[_Branch], start: int, truth: bool | None) -> None:
        group.append(_Branch(start, truth))
        self.dead += truth is False
        self.unsure += truth is None

    def leave(self, branch: _Branch, end: int) -> None:
        branch.end = end
        self.dead -= branch.truth is False
        self.unsure -= branch.truth is None

    def read(self, found: re.Match[str]) -> None:
        self.blanked.append(found.span())
        word, rest = found[1], found[2]
        if word in ("if", "ifdef", "ifndef"):
            truth = self.condition(word, rest) if self.active() else False
            self.groups.append([])
            self.enter(self.groups[-1], found.end(), truth)
            self.groups[-1][0].unless = _unless(word, rest)
        elif word in ("elif", "else", "elifdef", "elifndef"):
            self.next_branch(found, word, rest)
        elif word == "endif":
            self.close(found.start())
        elif self.active():
            self.plain(found, word, rest)

    def plain(self, found: re.Match[str], word: str, rest: str) -> None:
        if word == "define":
            self.define(found)
        elif word == "undef":
            self.undefined.update((name, found.end()) for name in _NAME.findall(rest)[:1])
            self.known.pop((_NAME.findall(rest) or [""])[0], None)
        elif word == "include" and (target := _INCLUDE.match(rest)):
            quoted = target[1] is not None
            place = target.span(1 if quoted else 2)
            at = found.start(2)
            line = IncludeLine((at + place[0], at + place[1]), not quoted, *found.span())
            self.includes.append(line)
        elif word == "pragma":
            self.pragmas.append((found.start(), rest.strip()))

    def define(self, found: re.Match[str]) -> None:
        name = _DEFINE.match(self.code, found.start(2))
        if not name or name.end() > found.end():
            return
        parameters = tuple(p.strip() for p in name[2][1:-1].split(",")) if name[2] else None
        raw = self.code[name.end() : found.end()]
        start = name.end() + len(raw) - len(raw.lstrip(" \t\\\n"))
        body = re.sub(r"\\[ \t]*\n", lambda m: " " * len(m[0]), raw.strip(" \t\\\n"))
        macro = Macro(name[1], parameters, body, name.start(1), start, start + len(body), found.start())
        self.macros.append(macro)
        if parameters is None and (self.certain() or self._is_default(name[1])):
            self.known[name[1]] = body
        else:
            self.known.pop(name[1], None)

    def _is_default(self, name: str) -> bool:
        """Whether it is defined where it is tested to be undefined: `#ifndef FAST`, `#define FAST 1`. That a header
        before it says otherwise is rare beside a default that stands."""
        branch = self.groups[-1][-1] if self.groups else None
        return branch is not None and self.dead == 0 and self.unsure == 1 and branch.unless == name

    def next_branch(self, found: re.Match[str], word: str, rest: str) -> None:
        if not self.groups:
            return
        group = self.groups[-1]
        self.leave(group[-1], found.start())
        decided = any(branch.truth for branch in group) or not self.active()
        truth = False if decided else self.condition(word.removeprefix("el"), rest)
        self.enter(group, found.end(), truth)

    def close(self, end: int) -> None:
        if not self.groups:
            return
        group = self.groups.pop()
        self.leave(group[-1], end)
        possible = [branch for branch in group if branch.truth is not False]
        several = len(possible) > 1 and len(self.groups) < _MAX_NESTING
        kept = possible if several and all(map(self._separable, possible)) else possible[:1]
        for branch in group:
            if branch not in kept:
                self.blanked.append((branch.start, branch.end))
            elif branch.truth is None or len(kept) > 1:
                self.conditional.append((branch.start, branch.end))

    def _separable(self, branch: _Branch) -> bool:
        """Whether the branch can stand beside its alternatives: whole statements, balanced brackets."""
        text = _DIRECTIVE.sub("", self.code[branch.start : branch.end]).strip()
        depth = 0
        for found in _BRACKETS.finditer(text):
            depth += 1 if found[0] in "({" else -1
            if depth < 0:
                return False
        return depth == 0 and text[-1:] in ("", ";", "}")

    def condition(self, word: str, rest: str) -> bool | None:
        rest = rest.replace("\\\n", " ").strip()
        if word in ("ifdef", "ifndef"):
            defined = self.defined(rest)
            return None if defined is None else defined == (word == "ifdef")
        if word == "se":
            return True
        value = evaluate(_DEFINED.sub(self._defined_value, rest), self._value)
        return None if value is None else bool(value)

    def defined(self, name: str) -> bool | None:
        return self.known[name] is not None if name in self.known else None

    def _defined_value(self, found: re.Match[str]) -> str:
        defined = self.defined(found[1] or found[2])
        return " __unknown__ " if defined is None else f" {int(defined)} "

    def _value(self, name: str) -> int | None:
        if name not in self.known:
            return None
        body = self.known[name]
        return 0 if body is None else evaluate(body, lambda _: None)


def _unless(word: str, rest: str) -> str:
    """The macro that an `#ifndef`, or an `#if !defined`, asks not to be defined; "" of others."""
    if word == "ifndef":
        return rest.strip()
    found = _UNDEFINED.fullmatch(rest.strip()) if word == "if" else None
    return found[1] or found[2] if found else ""


def _is_used(reader: _Reader, name: str, at: int) -> bool:
    """Whether a macro that was undefined could be meant behind that: a call, if it takes arguments."""
    called = [m.parameters is not None for m in reader.macros if m.name == name]
    meant = re.compile(rf"{name}\b\s*\(" if called and all(called) else rf"{name}\b")
    code = reader.code
    # Faster by far than a search for `\b`, which tries every place of a text of megabytes.
    while (at := code.find(name, at)) >= 0:
        if not (code[at - 1].isalnum() or code[at - 1] == "_") and meant.match(code, at):
            return True
        at += len(name)
    return False


def read_directives(code: str, defines: Mapping[str, str]) -> Directives:
    """The directives of `code`, whose comments and string contents are blanked.

    `defines` are the macros of the command line. A macro that is defined neither there nor in the text
    may come from a header: a condition on it is unknown, except the few that nvcc itself settles.
    """
    reader = _Reader(code, defines)
    for found in _DIRECTIVE.finditer(code):
        reader.read(found)
    while reader.groups:
        reader.close(len(code))
    return Directives(
        tuple(reader.macros),
        tuple(reader.includes),
        frozenset(n for n, at in reader.undefined.items() if _is_used(reader, n, at)),
        tuple(reader.blanked),
        tuple(reader.conditional),
        tuple(reader.pragmas),
    )
