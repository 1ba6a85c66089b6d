# SPDX-License-Identifier: Apache-2.0
"""`warplens history`: past runs, and what each rule has been worth on this machine."""

from __future__ import annotations

import datetime
import os
from typing import Annotated, Literal

from cyclopts import App, Parameter
from rich.table import Table
from rich.text import Text

from warplens.cli.streams import console as terminal
from warplens.cli.streams import write_json
from warplens.store.database import data_folder, open_store
from warplens.store.rates import hit_rates
from warplens.store.runs import list_runs

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


def _text(value: Table | str) -> int:
    terminal().print(value)
    return 0
