# SPDX-License-Identifier: Apache-2.0
"""`warplens history`: past runs, and what each rule has been worth on this machine."""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from rich.table import Table
from rich.text import Text

from warplens.agent.past import read_past
from warplens.cli.streams import console as terminal
from warplens.cli.streams import write_json
from warplens.present.run_page import run_page
from warplens.present.run_report import run_report
from warplens.store.database import data_folder, open_store
from warplens.store.rates import hit_rates
from warplens.store.runs import list_runs
from warplens_tools.errors import InputError

app = App(name="history", help="Past optimisations and measured hit rates.", result_action="return_value")
Format = Annotated[Literal["text", "json"], Parameter(name="--format")]


@app.command
def runs(*, limit: int = 20, format: Format = "text") -> int:
    """List the latest optimisation runs, newest first.

    Parameters
    ----------
    limit
        Runs to list at most.
    format
        Text for people, or one JSON array.
    """
    with open_store(data_folder(os.environ)) as store:
        listed = list_runs(store, limit=limit)
    if format == "json":
        return _json(listed)
    table = Table("run", "began", "kernel", "file", "outcome", "speedup", "GPU", box=None, pad_edge=False)
    for run in listed:
        began = datetime.datetime.fromtimestamp(run.started_at).strftime("%Y-%m-%d %H:%M")
        speedup = f"{run.speedup:.3f}" if run.speedup is not None else ""
        outcome = run.outcome or "unfinished"
        table.add_row(
            str(run.id),
            began,
            Text(run.target.kernel),
            Text(run.target.path),
            outcome,
            speedup,
            Text(run.gpu),
        )
    return _text(table if listed else "no runs yet")


@app.command
def show(run: int, /, *, page: Path | None = None, report: Path | None = None) -> int:
    """Show one run: the version it found with its proof, and what did not help.

    Parameters
    ----------
    run
        Its number, as `warplens history runs` lists it.
    page
        Write an HTML page to this file instead: the tree, the speedup over evaluations, every version with its diff.
    report
        Write the Markdown report to this file instead of printing it.
    """
    with open_store(data_folder(os.environ)) as store:
        past = read_past(store, run)
    for path, made in ((page, run_page), (report, run_report)):
        if path is not None:
            _write(path, made(past))
    if page is None and report is None:
        return _text(Text(run_report(past)))
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    sys.stderr.write(f"warplens: written to {path}\n")


@app.command
def rules(*, format: Format = "text") -> int:
    """Show for each rule and finding how often it paid, and predicted against measured gains.

    Parameters
    ----------
    format
        Text for people, or one JSON array.
    """
    with open_store(data_folder(os.environ)) as store:
        rates = hit_rates(store)
    if format == "json":
        return _json(rates)
    table = Table(
        "kind",
        "name",
        "tried",
        "hits",
        "predicted",
        "measured",
        "taken",
        "turned down",
        box=None,
        pad_edge=False,
    )
    for rate in rates:
        hits = f"{rate.hits} ({rate.hits / rate.trials:.0%})" if rate.trials else ""
        table.add_row(
            "finding" if rate.kind == "tool" else rate.kind,
            Text(rate.subject),
            str(rate.trials),
            hits,
            _factor(rate.mean_predicted),
            _factor(rate.mean_measured),
            str(rate.accepted),
            str(rate.rejected),
        )
    return _text(table if rates else "nothing was tried yet")


def _factor(value: float | None) -> str:
    return f"{value:.3f}x" if value is not None else ""


def _json(value: object) -> int:
    write_json(value)
    return 0


def _text(value: Table | Text | str) -> int:
    terminal().print(value)
    return 0
