# SPDX-License-Identifier: Apache-2.0
"""What the build says of itself, as findings: errors that stop the analysis, and options that spoil it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from warplens_tools.evidence import CompilerMessage, Observation
from warplens_tools.finding import Finding, Severity
from warplens_tools.text import SourceText, Span

#: Code and slug by what a message is. They are not micro-profiling tools: they say why tools may be silent.
NOT_COMPILED = ("WL901", "not-compiled")
BUILD_OPTIONS = ("WL902", "build-options")
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
        yield _finding(
            NOT_COMPILED,
            _span(text, message.line if here else _include_line(text, message.path), message.column),
            "error",
            f"nvcc: {message.text}{where}",
            "Only what the text itself says can be shown until it compiles.",
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


def _span(text: SourceText, line: int, column: int) -> Span:
    line = min(max(line, 1), text.line_count)
    content = text.line_text(line)
    start = column if column > 0 else len(content) - len(content.lstrip()) + 1
    return Span(line, start, line, max(len(content.rstrip()) + 1, start + 1))


def _include_line(text: SourceText, other: str) -> int:
    name = Path(other).name
    for number, line in enumerate(text.lines(), start=1):
        if line.lstrip().startswith("#") and "include" in line and name in line:
            return number
    return 1
