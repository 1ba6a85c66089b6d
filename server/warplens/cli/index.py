# SPDX-License-Identifier: Apache-2.0
"""`warplens index`: build, update, list and remove what is searched; `warplens setup cutlass`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, TextIO, TypeVar

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from warplens.cli.main import EXIT_CLEAN
from warplens.cli.streams import console as terminal
from warplens.cli.streams import write_json
from warplens_cutlass.corpus import corpora, find_corpus
from warplens_cutlass.fetch import VERSION, setup_cutlass
from warplens_cutlass.store.build import BuildReport
from warplens_cutlass.store.build import build as build_index
from warplens_cutlass.store.build import remove as remove_index
from warplens_cutlass.store.build import update as update_index
from warplens_cutlass.store.status import CorpusStatus
from warplens_cutlass.store.status import status as index_status
from warplens_tools.process.task import Task

T = TypeVar("T")
_WORST = 15
NOTHING_INDEXED = "nothing is indexed: run `warplens setup cutlass` or `warplens index build PATH`"

app = App(name="index", help="Build and update the CUTLASS/CuTe index.", help_format="markdown")


@app.command
def build(path: Path, /, *, name: str = "") -> int:
    """Index a folder: a CUTLASS checkout, or any folder of CUDA/C++ code.

    Parameters
    ----------
    path
        The folder; for a checkout its root, which holds include and examples.
    name
        What to call it; "cutlass" or the folder's name by default.
    """
    _print_report(_with_progress(lambda task: build_index(path, name=name, task=task)))
    return EXIT_CLEAN


@app.command
def update(*names: str) -> int:
    """Read again what changed since the last build.

    Parameters
    ----------
    names
        Corpora by name or folder; all by default.
    """
    chosen = [find_corpus(n) for n in names] if names else corpora()
    if not chosen:
        sys.stdout.write(f"{NOTHING_INDEXED}\n")
    for corpus in chosen:
        _print_report(_with_progress(lambda task, c=corpus: update_index(c, task=task)))  # type: ignore[misc]
    return EXIT_CLEAN


@app.command
def remove(name: str, /) -> int:
    """Delete the index of a corpus and forget it; its folder stays.

    Parameters
    ----------
    name
        The corpus by name or folder.
    """
    corpus = find_corpus(name)
    remove_index(corpus)
    sys.stdout.write(f"removed the index of {corpus.name}; {corpus.root} is untouched\n")
    return EXIT_CLEAN


@app.command
def status(
    *,
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative="")] = False,
    format: Annotated[Literal["text", "json"], Parameter(name="--format")] = "text",
) -> int:
    """What is indexed, how well it could be parsed, and what was left out.

    Parameters
    ----------
    verbose
        Also the worst parsed files, what was skipped and why, and the number of symbols by kind.
    format
        Text for people, or one JSON object.
    """
    states = index_status(worst=_WORST)
    if format == "json":
        write_json({"corpora": states})
        return EXIT_CLEAN
    console = terminal()
    if not states:
        console.print(NOTHING_INDEXED, markup=False)
    for state in states:
        _print_status(console, state, verbose=verbose)
    return EXIT_CLEAN


def cutlass(
    *, version: str = VERSION, yes: Annotated[bool, Parameter(name=["--yes", "-y"], negative="")] = False
) -> int:
    """Download the CUTLASS headers and examples and index them.

    Parameters
    ----------
    version
        Version of the nvidia-cutlass wheel.
    yes
        Agree to the download without being asked.
    """
    if not fetch_cutlass(version, yes=yes):
        sys.stderr.write("nothing was downloaded\n")
    return EXIT_CLEAN


def fetch_cutlass(version: str, *, yes: bool, why: str = "") -> bool:
    """Download and index CUTLASS where the user agrees; whether that was done.

    Raises:
        InputError: nobody is there to ask.
    """
    from warplens.cli.setup import consented

    wheel = f"download the nvidia-cutlass {version} wheel from PyPI (6 MB, BSD-3-Clause) and index it"
    if not consented(f"{why}Warplens will {wheel}. Go on?", yes):
        return False
    report = _with_progress(lambda task: setup_cutlass(version=version, task=task))
    _print_report(report, sys.stderr)
    return True


def _with_progress(action: Callable[[Task], T]) -> T:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        row = bar.add_task("starting", total=1.0)
        return action(
            Task(lambda message, share: bar.update(row, description=message, completed=share or 0.0))
        )


def _print_report(report: BuildReport, to: TextIO | None = None) -> None:
    verb = "built" if report.rebuilt else "updated"
    (to or sys.stdout).write(
        f"{verb} {report.corpus.name}{' ' + report.corpus.version if report.corpus.version else ''}: "
        f"{report.files_total} files, {report.symbols} symbols; read {report.files_read}, removed "
        f"{report.files_removed}, skipped {len(report.skipped)} in {report.seconds:.1f} s\n"
    )


def _print_status(console: Console, state: CorpusStatus, *, verbose: bool) -> None:
    corpus = state.corpus
    title = Text(f"{corpus.name} {corpus.version}".strip(), style="bold")
    title.append(f"  {state.state}", style="cyan")
    console.print(title)
    console.print(Text(f"  {corpus.root}", style="dim"))
    if state.parsed_share is None:
        return
    console.print(
        f"  {state.files} files ({state.examples} examples), {state.symbols} symbols, "
        f"index {state.index_bytes / 1e6:.1f} MB, {state.age / 3600:.1f} h old, {state.changed} changed since, "
        f"{len(state.skipped)} skipped",
        markup=False,
    )
    shares = f"{state.parsed_share:.2%} of all bytes"
    if state.header_share is not None:
        shares = f"{state.header_share:.2%} of header bytes, {shares}"
    console.print(f"  parsed: {shares} outside errors", markup=False)
    if verbose:
        _print_details(console, state)


def _print_details(console: Console, state: CorpusStatus) -> None:
    console.print("  " + ", ".join(f"{n} {kind}" for kind, n in state.kinds), markup=False)
    for bad in state.worst:
        share = bad.error_bytes / max(bad.bytes, 1)
        console.print(
            f"  worst parsed: {bad.path}: {bad.error_bytes} bytes ({share:.1%}) in errors", markup=False
        )
    for left_out in state.skipped:
        console.print(f"  skipped: {left_out.path}: {left_out.reason}", markup=False)
