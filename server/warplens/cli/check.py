# SPDX-License-Identifier: Apache-2.0
"""`warplens check`: findings on the lines of files and folders."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from warplens.cli.interrupt import command_task
from warplens.cli.main import EXIT_CLEAN, EXIT_FAILED, EXIT_FINDINGS, print_error
from warplens.cli.streams import write
from warplens_tools.errors import InputError
from warplens_tools.evidence import Tier
from warplens_tools.finding import SEVERITIES, count

if TYPE_CHECKING:
    from warplens.cli.checking import CheckRun
    from warplens.service.fixes import Fixed
    from warplens.service.report import Report
    from warplens_tools.finding import Finding

Switch = Parameter(negative="")
Format = Literal["text", "concise", "json", "sarif", "github"]
FailOn = Literal["error", "warning", "information", "hint", "never"]


def check(
    *paths: Path,
    tier: Tier | None = None,
    arch: Annotated[list[str] | None, Parameter(negative="")] = None,
    select: Annotated[list[str] | None, Parameter(negative="")] = None,
    ignore: Annotated[list[str] | None, Parameter(negative="")] = None,
    baseline: Path | None = None,
    format: Annotated[Format, Parameter(name="--format")] = "text",
    fail_on: FailOn = "error",
    fix: Annotated[bool, Switch] = False,
    fix_all: Annotated[bool, Switch] = False,
    diff: Annotated[bool, Switch] = False,
    sanitize: Annotated[bool, Switch] = False,
    stdin_filename: Path = Path("stdin.cu"),
    watch: Annotated[bool, Switch] = False,
    jobs: Annotated[int | None, Parameter(name=["--jobs", "-j"])] = None,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False,
) -> int:
    """Show what bounds each kernel and what to do about it, on the line.

    Exits with 0 when all that was asked for was looked at and is clean, 1 with findings at or above --fail-on,
    2 where something asked for could not be done.

    Parameters
    ----------
    paths
        Files, with the headers of theirs that hold kernels, or folders that are searched for .cu and .cuh files and
        for headers with kernels (not what .gitignore leaves out); - reads standard input. The current folder if left
        out.
    tier
        Highest tier of evidence to collect; binary where a compiler is found, else source. From timing on
        each file's program is built and run, which takes a GPU.
    arch
        Architecture to judge against, such as sm_90; the GPU present, else the configured one.
        May be repeated, or several with commas between.
    select
        Report these codes or names only, such as WL108 or register-spills; WL1 stands for all that begin with it.
        May be repeated, or several with commas between.
    ignore
        Leave these codes or names out, beside those of the settings, in the same way.
    baseline
        An earlier answer of --format json: findings that it holds are neither shown nor counted.
    format
        Text for people, one line a finding, one JSON object, SARIF 2.1.0, or GitHub's annotations.
    fail_on
        Exit with 1 when a finding is of this severity or worse; never to exit with 0.
    fix
        Write the edits that answer the findings, but none that changes results or answers a finding of low
        confidence. They are unproven. The report is of the text before.
    fix_all
        Write those too.
    diff
        Print what --fix or --fix-all would change as a patch for `patch -p1`, and write nothing.
    sanitize
        Build and run each file's program under compute-sanitizer's memcheck, racecheck, initcheck and
        synccheck too, which takes a GPU. A fault counts as an error.
    stdin_filename
        The name that standard input goes by: where its settings and compile flags are looked up.
    watch
        Check again whenever a file changes, until interrupted.
    jobs
        Files that are looked at at once; the machine's cores if left out. What is run on a GPU runs alone.
    quiet
        Print nothing; the exit status answers.
    """
    from warplens.cli.checking import CheckRun, Selection

    if watch and (fix or fix_all or diff):
        raise InputError("--watch only looks: leave out --fix, --fix-all and --diff")
    run = CheckRun(
        paths=tuple(paths) or (Path(),),
        tier=tier,
        archs=tuple(dict.fromkeys(name for word in arch or () for name in word.split(",") if name)),
        selection=Selection.of(select or (), ignore or (), baseline),
        sanitize=sanitize,
        stdin_name=stdin_filename,
        jobs=jobs,
    )
    if watch:
        from warplens.cli.watching import watch_files

        return watch_files(run.folders(), lambda: _once(run, format, fail_on, quiet=quiet))
    if not (fix or fix_all or diff):
        return _once(run, format, fail_on, quiet=quiet)
    return _fixed(run, format, fail_on, everything=fix_all, only_show=diff, quiet=quiet)


def _once(run: CheckRun, format: Format, fail_on: FailOn, *, quiet: bool) -> int:
    from warplens.cli.formats import print_answer

    answer = run.answer(task=command_task())
    if not quiet:
        print_answer(answer, format)
    return status_of(answer.report, fail_on, quiet=quiet)


def _fixed(
    run: CheckRun, format: Format, fail_on: FailOn, *, everything: bool, only_show: bool, quiet: bool
) -> int:
    from warplens.cli.formats import print_answer
    from warplens.service.fixes import apply_fixes

    if run.reads_stdin and not only_show:
        raise InputError(
            "standard input cannot be fixed", remedy="name the file, or take a patch with --diff"
        )
    if only_show and (quiet or format != "text"):
        raise InputError("--diff prints a patch and nothing else", remedy="leave out --format and --quiet")
    answer = run.answer(task=command_task()).with_texts()
    fixed = apply_fixes(answer.report, "all" if everything else "sure", write=not only_show, stdin=run.stdin)
    if only_show:
        write(fixed.patch)
        if fixed.patch and Path(fixed.root) != Path.cwd():
            _note(f"the patch starts from {fixed.root}: patch -p1 -d {fixed.root}")
        for unknown in fixed.report.unknown:
            if unknown.failed:
                print_error(InputError(f"{unknown.what}: {unknown.why}", remedy=unknown.remedy))
    elif not quiet:
        with _told_of(fixed):
            print_answer(answer.with_report(fixed.report), format)
    if fixed.waiting and not quiet:
        _note(overlapping(fixed.waiting))
    if not fixed.patch and not quiet and not any(unknown.failed for unknown in fixed.report.unknown):
        _note(nothing_to_fix(fixed.beyond))
    return status_of(fixed.report, fail_on, quiet=quiet)


@contextlib.contextmanager
def _told_of(fixed: Fixed) -> Iterator[None]:
    """Say what was written already where the answer that says it cannot be."""
    try:
        yield
    except OSError:
        if fixed.written:
            _note(f"already changed: {', '.join(fixed.written)}")
        raise


def nothing_to_fix(beyond: int) -> str:
    """Why no edit was taken; `beyond` are those that only `--fix-all` takes."""
    return f"no edits without a caveat; {beyond} with --fix-all" if beyond else "no finding has an edit"


def overlapping(edits: int) -> str:
    """What becomes of edits that overlap one that was taken."""
    verb = "s" if edits == 1 else ""
    return f"{count(edits, 'edit')} more overlap{verb} one of these: run it again once they are in the file"


def _note(sentence: str) -> None:
    import sys

    sys.stderr.write(f"warplens: {sentence}\n")


def status_of(report: Report, fail_on: FailOn, *, quiet: bool = False) -> int:
    """The exit status of a report: what could not be done counts more than what was found."""
    failed = [unknown for unknown in report.unknown if unknown.failed]
    if failed:
        if quiet:
            print_error(InputError(f"{failed[0].what}: {failed[0].why}", remedy=failed[0].remedy))
        return EXIT_FAILED
    return EXIT_FINDINGS if reaches(report, fail_on) else EXIT_CLEAN


def reaches(report: Report, fail_on: FailOn) -> bool:
    """Whether a finding that was not fixed is of severity `fail_on` or worse; the sanitizer's faults are errors."""
    if fail_on == "never":
        return False
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    faulty = any(file.faults for file in report.files)
    return faulty or any(counts(f) and f.severity in failing for file in report.files for f in file.findings)


def counts(finding: Finding) -> bool:
    """Whether a finding still stands: none of its fixes was written just now."""
    return not any(fix.applied for fix in finding.fixes)
