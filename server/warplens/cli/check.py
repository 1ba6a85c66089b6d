"""`warplens check`: findings on the lines of files and folders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter
from rich.console import Console

from warplens.cli.main import EXIT_CLEAN, EXIT_FINDINGS
from warplens.cli.text import print_report
from warplens.service.profile import check_measured
from warplens.service.report import FileReport, Report
from warplens.service.sanitize import with_faults
from warplens.service.service import CheckOptions, Service
from warplens_tools.evidence import Tier
from warplens_tools.finding import SEVERITIES, Severity
from warplens_tools.text import SourceText, TextEdit, unified_diff


def check(
    *paths: Path,
    tier: Tier | None = None,
    arch: str | None = None,
    format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
    fail_on: Severity | Literal["never"] = "error",
    fix: Annotated[bool, Parameter(negative="")] = False,
    sanitize: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Show what bounds each kernel and what to do about it, on the line.

    Parameters
    ----------
    paths
        Files, or folders that are searched for .cu and .cuh files.
    tier
        Highest tier of evidence to collect; binary where a compiler is found, else source. From timing on
        each file's program is built and run, which takes a GPU.
    arch
        Architecture to judge against, such as sm_90; the GPU present, else the configured one.
    format
        Text for people, or one JSON object.
    fail_on
        Exit with 1 when a finding is of this severity or worse; never to exit with 0.
    fix
        Apply the edits that answer the findings, and print them as a diff. They are unproven.
    sanitize
        Build and run each file's program under compute-sanitizer's memcheck, racecheck, initcheck and
        synccheck too, which takes a GPU. A fault counts as an error.
    """
    service = Service(Path.cwd())
    report = check_measured(service, list(paths) or [Path()], CheckOptions(tier=tier, arch=arch))
    if sanitize:
        report = with_faults(service, report, progress=_say)
    if fix:
        apply_fixes(report)
    if format == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    else:
        print_report(Console(highlight=False, soft_wrap=True), report)
    return EXIT_FINDINGS if reaches(report, fail_on) else EXIT_CLEAN


def _say(message: str, _share: float | None = None) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"warplens: {message} …\n")


def reaches(report: Report, fail_on: Severity | Literal["never"]) -> bool:
    """Whether a finding is of severity `fail_on` or worse; compute-sanitizer's faults are errors."""
    if fail_on == "never":
        return False
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    faulty = any(file.faults for file in report.files)
    return faulty or any(f.severity in failing for file in report.files for f in file.findings)


def apply_fixes(report: Report) -> None:
    """Write the first fix of every finding; fixes that overlap an earlier one wait for the next run."""
    for file in report.files:
        path = Path(file.path)
        edits = first_fixes(file)
        if not edits:
            continue
        before = SourceText.read(path)
        after = before.apply(edits)
        path.write_bytes(after.encode())
        sys.stderr.write(unified_diff(before, after, path=file.path))


def first_fixes(file: FileReport) -> list[TextEdit]:
    """The edits of each finding's first fix, without those that overlap an edit already taken."""
    taken: list[TextEdit] = []
    for finding in file.findings:
        edits = list(finding.fixes[0].edits) if finding.fixes else []
        if edits and not any(_overlap(a, b) for a in edits for b in taken):
            taken += edits
    return taken


def _overlap(a: TextEdit, b: TextEdit) -> bool:
    first, second = sorted((a.span, b.span))
    if first == second:
        return True
    return (first.end_line, first.end_column) > (second.line, second.column)
