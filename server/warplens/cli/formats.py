# SPDX-License-Identifier: Apache-2.0
"""A report on standard output, in the form that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from warplens.cli.streams import answering, console, write, write_json

if TYPE_CHECKING:
    from warplens.cli.checking import Answer
    from warplens.service.report import FileReport, Report
    from warplens_tools.evidence import Unknown
    from warplens_tools.finding import Finding


def print_answer(answer: Answer, format: str) -> None:
    """Write the answer; `format` is one of `check`'s. A reader that has enough (`head`) changes no exit status."""
    with answering():
        _PRINTERS[format](answer)


def _text(answer: Answer) -> None:
    from warplens.cli.text import print_report

    print_report(console(), answer.report, old=answer.old, texts=answer.texts, only_new=answer.only_new)


def _concise(answer: Answer) -> None:
    _lines(concise_lines(answer.report))


def _json(answer: Answer) -> None:
    write_json(answer.report)


def _sarif(answer: Answer) -> None:
    from warplens.cli.sarif import sarif_log

    write_json(sarif_log(answer.report))


def _github(answer: Answer) -> None:
    _lines(github_lines(answer.report))


_PRINTERS: dict[str, Callable[[Answer], None]] = {
    "text": _text,
    "concise": _concise,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
}


def _lines(lines: Iterator[str]) -> None:
    write("".join(line + "\n" for line in lines).encode("utf-8", errors="surrogateescape"))


def concise_lines(report: Report) -> Iterator[str]:
    """One line a finding, as compilers write them; then what could not be done."""
    several = len({file.arch for file in report.files}) > 1
    for file in report.files:
        on = f" [{file.arch}]" if several else ""
        for f in file.findings:
            fixed = " (fixed)" if any(fix.applied for fix in f.fixes) else ""
            yield f"{file.path}:{f.line}:{f.column}: {f.severity}: {f.code} {f.slug}: {_flat(f.message)}{on}{fixed}"
        for fault in file.faults or ():
            place = f"{fault.place.path}:{fault.place.line}" if fault.place else file.path
            yield f"{place}: error: {fault.tool}: {_flat(fault.message)}"
    for unknown in report.unknown:
        if unknown.failed:
            yield f"failed: {_sentence(unknown)}"


def github_lines(report: Report) -> Iterator[str]:
    """Workflow commands that GitHub shows as annotations on the lines of a pull request."""
    for file in report.files:
        for f in file.findings:
            yield _annotation(file, f)
        for fault in file.faults or ():
            line = f",line={fault.place.line}" if fault.place else ""
            yield f"::error file={_property(file.path)}{line},title={_property(fault.tool)}::{_data(fault.message)}"
    for unknown in report.unknown:
        if unknown.failed:
            yield f"::error title=warplens::{_data(_sentence(unknown))}"


_LEVELS = {"error": "error", "warning": "warning", "information": "notice", "hint": "notice"}


def _annotation(file: FileReport, f: Finding) -> str:
    # columns are only understood where a finding stays on its line
    columns = (
        f",col={f.column},endColumn={max(f.span.end_column - 1, f.column)}" if f.line == f.end_line else ""
    )
    place = f"file={_property(file.path)},line={f.line},endLine={f.end_line}{columns}"
    body = "\n".join(part for part in (f.message, f.guidance, f.page) if part)
    return f"::{_LEVELS[f.severity]} {place},title={_property(f'{f.code} {f.slug}')}::{_data(body)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _sentence(unknown: Unknown) -> str:
    return f"{unknown.what}: {_flat(unknown.why)}" + (f" → {unknown.remedy}" if unknown.remedy else "")


def _flat(text: str) -> str:
    return " ".join(text.split())
