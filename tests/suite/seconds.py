# SPDX-License-Identifier: Apache-2.0
"""Where the seconds of a search went, by its journal: what was judged in a minute, and what each step took.

`compile` is that of all candidates together, and overlaps with everything; `wait` is for the card while another lane or
search has it. `begin` is the program's start and what a visit does once for all of its candidates, `compare` and `time`
are what each has for itself. `confirm` is the time from the last verdict on.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from warplens.measure.costs import ARRIVAL, BUILD, COMPARE, LOAD, ONCE, TIME, WAITING

#: What steps of a verdict's cost are called here.
PARTS = {
    "compile": {BUILD},
    "wait": {WAITING},
    "begin": {ARRIVAL, *ONCE},
    "compare": {COMPARE},
    "time": {TIME, LOAD},
}


def spent(store: Path, began: float) -> dict[str, Any]:
    """Of the search that `store` keeps, which began at that second of the epoch; nothing where it told of no candidate.

    `search_seconds`: from the baseline to the last verdict; `judged_a_minute` is of those. `ask_to_verdict`: the median
    seconds from when a candidate was handed out, which hold what no step counts, such as a wait for the others of its
    batch; `in_hand`: how many were handed out and not told, on average.
    """
    if not store.exists():
        return {}
    with contextlib.closing(sqlite3.connect(store)) as connection:
        steps = connection.execute("SELECT at, kind, payload FROM steps ORDER BY number").fetchall()
    return told([(at - began, kind, json.loads(payload)) for at, kind, payload in steps])


def told(steps: Sequence[tuple[float, str, Mapping[str, Any]]]) -> dict[str, Any]:
    """The same of a journal's steps: seconds since the command began, kind, and content."""
    verdicts = [(at, content) for at, kind, content in steps if kind == "tell"]
    if not verdicts:
        return {}
    opened = next((at for at, kind, _ in steps if kind == "baseline"), 0.0)
    last = max(at for at, _ in verdicts)
    confirmed = [(at, content) for at, kind, content in steps if kind == "confirm"]
    search = last - opened
    seconds = {name: _summed((v["cost"] for _, v in verdicts), parts) for name, parts in PARTS.items()}
    seconds["confirm"] = max((at for at, _ in confirmed), default=last) - last
    asked = {content["candidate"]["id"]: at for at, kind, content in steps if kind == "ask"}
    waits = [at - asked[v["candidate"]] for at, v in verdicts if v["candidate"] in asked]
    return {
        "judged_a_minute": round(60.0 * len(verdicts) / search, 1) if search > 0 else None,
        "ask_to_verdict": round(median(waits), 1) if waits else None,
        "in_hand": round(sum(waits) / search, 1) if search > 0 else None,
        "in_full": sum(v["state"] in ("faster", "same", "slower") for _, v in verdicts),
        "open_seconds": round(opened, 1),
        "search_seconds": round(search, 1),
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "confirmations": [
            {"state": c["verdict"]["state"], "at": round(at, 1), **c.get("cost", {})} for at, c in confirmed
        ],
    }


def _summed(costs: Iterable[Mapping[str, float]], names: set[str]) -> float:
    return sum(seconds for cost in costs for name, seconds in cost.items() if name in names)


def shares(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of several searches: candidates a minute, and each step's share of the time from baseline to last verdict; that
    of confirmations is of all time. Nothing where none has told."""
    having = [row for row in rows if row.get("judged_a_minute")]
    if not having:
        return {}
    search = sum(row["search_seconds"] for row in having)
    total: Counter[str] = Counter()
    for row in having:
        total.update(row["seconds"])
    wall = sum(row["wall_seconds"] for row in having)
    found = {name: round(total[name] / search, 2) for name in PARTS}
    return {
        "judged_a_minute": {
            "median": median(row["judged_a_minute"] for row in having),
            "least": min(row["judged_a_minute"] for row in having),
        },
        "share_of_search_seconds": found,
        "share_of_all_seconds_in_confirmation": round(total["confirm"] / wall, 2),
    }
