# SPDX-License-Identifier: Apache-2.0
"""What the build says of itself, as findings: errors that stop the analysis, and options that spoil it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from warplens.service.report import FileReport
from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.evidence import CompilerMessage, Observation
from warplens_tools.finding import Finding, Severity
from warplens_tools.text import SourceText, Span

#: Code and slug by what a message is. They are not micro-profiling tools: they say why tools may be silent.
NOT_COMPILED = ("WL901", "not-compiled")
BUILD_OPTIONS = ("WL902", "build-options")
HEADERS = frozenset({".cuh", ".h", ".hpp", ".hh", ".hxx", ".inl", ".inc", ".ipp", ".tpp", ".impl"})
_INCLUDE = re.compile(r"""\s*#\s*include\s*["<]([^">]+)[">]""")
_NO_HEADER = re.compile(r"No such file or directory|cannot open source file|file not found")
#: A finding on an `#include`: the compiler's words, and the place that they are of.
_ELSEWHERE = re.compile(r"(.*) \((.+):(\d+)\)$", re.DOTALL)
_NONE = ("", "")
#: Their pages: name, title, paragraphs.
PAGES = (
    (
        NOT_COMPILED,
        "The unit does not compile",
        (
            "nvcc refused the translation unit, so there is no machine code to look at: checks that need it are "
            "silent, and what is shown rests on the text alone. The finding stands on the line that nvcc names, or "
            "on the `#include` that leads there.",
            "**What to do.** Mend the error. Where your build compiles the file and Warplens does not, the flags "
            "differ: point the setting `compile-commands` at your build's `compile_commands.json`, or set `flags`.",
        ),
    ),
    (
        BUILD_OPTIONS,
        "Options of the build spoil or change what is analysed",
        (
            "The build compiles with an option that switches the device optimiser off (`-G`, `-Xptxas -O0`), for "
            "architectures other than the one analysed, or with clang options that nvcc has no counterpart of. "
            "Findings are of the code without those options.",
            "**What to do.** Point Warplens at a release build, or set `flags` and `architecture` in `warplens.toml`.",
        ),
    ),
)


def build_findings(path: Path, text: SourceText, messages: Sequence[CompilerMessage]) -> list[Finding]:
    """Compiler errors at their lines (at the include for those in other files), then spoiling options."""
    return [*_errors(path, text, messages), *_options(messages)]


def _errors(path: Path, text: SourceText, messages: Sequence[CompilerMessage]) -> Iterator[Finding]:
    for message in messages:
        if message.severity != "error":
            continue
        here = not message.path or os.path.realpath(message.path) == os.path.realpath(path)
        where = "" if here else f" ({message.path}:{message.line})"
        line = message.line if here else include_line(path, text, message.path)
        if line is None:  # of a header: the fault is elsewhere in the unit that it is compiled in
            continue
        yield _finding(
            NOT_COMPILED,
            _place(text, line, message.column, message.text) if here else _span(text, line),
            "error",
            f"nvcc: {message.text}{where}",
            f"{mend(message.text)}. Only what the text itself says can be shown until it compiles.",
            Observation("binary", "nvcc", message.code or "error", message.text),
        )


def _options(messages: Sequence[CompilerMessage]) -> Iterator[Finding]:
    """Options said first; ptxas' and nvcc's own warnings belong to clangd and the tools."""
    for message in messages:
        if message.code == "build-option":
            yield _finding(
                BUILD_OPTIONS,
                Span(1, 1, 1, 1),
                message.severity,
                message.text,
                "Analyse a release build, or set flags and architecture in warplens.toml.",
                Observation("binary", message.path or "settings", "build option", message.text),
            )


def _finding(
    name: tuple[str, str], span: Span, severity: Severity, message: str, guidance: str, seen: Observation
) -> Finding:
    return Finding(
        code=name[0],
        slug=name[1],
        kernel="",
        span=span,
        severity=severity,
        confidence="high",
        message=message,
        guidance=guidance,
        evidence=(seen,),
    )


def _span(text: SourceText, line: int) -> Span:
    """What is written on a line."""
    line = min(max(line, 1), text.line_count)
    content = text.line_text(line)
    start = len(content) - len(content.lstrip()) + 1
    return Span(line, start, line, max(len(content.rstrip()) + 1, start + 1))


_TOKEN = re.compile(r"""[A-Za-z_]\w*|\d[\w.\']*|"(?:[^"\\]|\\.)*"|\S""")
_NAMED = re.compile(
    r"\b(?:identifier|member|function|variable|namespace|template|name|class|struct|enum) "
    r'"(?:\w+::)*([A-Za-z_]\w*)[^"\w]*"'
)


def _place(text: SourceText, line: int, column: int, said: str) -> Span:
    """The token that an error is about: the nearest one that it names, else the one at its column.

    The column is of the line as preprocessed, without comments and with macros expanded, so that it is a hint only.
    A semicolon that is missing is missing behind the token before.
    """
    line = min(max(line, 1), text.line_count)
    code = without_comments(to_ascii(text.text), keep_strings=True).splitlines()
    tokens = list(_TOKEN.finditer(code[line - 1])) if line <= len(code) else []
    if 'expected a ";"' in said:
        before = [token for token in tokens if column and token.start() + 1 < column]
        while not before and line > 1:
            line -= 1
            before = list(_TOKEN.finditer(code[line - 1]))
        return _of(before[-1], line) if before else _span(text, line)
    named = set(_NAMED.findall(said))
    if about := [token for token in tokens if token[0] in named]:
        return _of(min(about, key=lambda token: abs(token.start() + 1 - column)), line)
    at = [token for token in tokens if token.start() < column]
    # what it names and the line does not show is a macro's
    return _of(at[-1], line) if at and not re.search(r'\bidentifier "', said) else _span(text, line)


def _of(token: re.Match[str], line: int) -> Span:
    return Span(line, token.start() + 1, line, token.end() + 1)


def mend(error: str) -> str:
    """What to do about a compiler's error: a header that is not found is no fault of the text."""
    if not _NO_HEADER.search(error):
        return "Mend the compiler's error"
    return (
        "Where your build finds the header, say how in warplens.toml: name its folder in `flags` "
        '(flags = ["-IFOLDER"]), or point `compile-commands` at your build\'s compile_commands.json'
    )


def include_line(path: Path, text: SourceText, other: str) -> int | None:
    """The line of `path` whose `#include` leads to `other`, straight or through files between.

    Where none is found: 1 of a unit, whose search path leads further than names do; None of a header.
    """
    for number, line in enumerate(text.lines(), start=1):
        match = _INCLUDE.match(line)
        if match and _leads(path.parent, match[1], os.path.realpath(other), set()):
            return number
    return None if path.suffix in HEADERS else 1


def _leads(folder: Path, target: str, other: str, seen: set[str]) -> bool:
    if Path(target).name == Path(other).name:
        return True
    file = os.path.realpath(folder / target)
    if file in seen:
        return False
    seen.add(file)
    try:
        lines = Path(file).read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return False
    targets = [match[1] for match in map(_INCLUDE.match, lines) if match]
    return any(_leads(Path(file).parent, each, other, seen) for each in targets)


def one_each(files: Sequence[FileReport]) -> list[FileReport]:
    """One fault, one error: of files that fail by the same line that with the line has the finding, else the first."""
    owners: dict[tuple[str, str], int] = {}
    for index, file in enumerate(files):
        for finding in file.findings:
            fault, elsewhere = _fault_of(file.path, finding)
            if fault is not None and (fault not in owners or not elsewhere):
                owners[fault] = index
    return [
        msgspec.structs.replace(
            file,
            findings=tuple(
                f for f in file.findings if owners.get(_fault_of(file.path, f)[0] or _NONE, index) == index
            ),
        )
        for index, file in enumerate(files)
    ]


def _fault_of(path: str, finding: Finding) -> tuple[tuple[str, str] | None, bool]:
    """What does not compile, by place and words, and whether that place is in another file."""
    if finding.code != NOT_COMPILED[0]:
        return None, False
    match = _ELSEWHERE.match(finding.message)
    if match is None:
        return (f"{os.path.realpath(path)}:{finding.line}", finding.message), False
    return (f"{os.path.realpath(match[2])}:{match[3]}", match[1]), True
