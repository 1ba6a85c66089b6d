# SPDX-License-Identifier: Apache-2.0
"""How often a rule's edit, or the edit a micro-tool asked for, made a kernel faster, and by how much."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from warplens.store.database import transaction

#: Mean squared difference of the features at which a trial counts for a third (1/e): two kernels that differ in one
#: of ten features entirely.
SCALE = 0.1

#: What a trial counts for whose kernel's features are not known.
UNKNOWN = 1 / 3
SubjectKind = Literal["rule", "tool"]


class Trial(msgspec.Struct, frozen=True):
    """One judged step from a parent version to a child, seen as a test of a rule or a micro-tool."""

    kind: SubjectKind
    #: Slug of the rewrite or parameter kind, or code of the finding.
    subject: str
    #: The verdict's state.
    state: str
    #: Speedup factor that was expected, and the one measured over the parent; None where unknown.
    predicted: float | None
    measured: float | None
    #: Faster than the parent beyond the noise.
    hit: bool
    arch: str = ""
    #: Of the kernel, see `warplens.agent.features`; none where they were not known.
    features: Mapping[str, float] = {}


class HitRate(msgspec.Struct, frozen=True):
    """What a rule or tool has been worth so far; gains are geometric means of speedup factors."""

    kind: SubjectKind
    subject: str
    #: Weighted by likeness where rates for one kernel were asked for.
    trials: float
    hits: float
    #: Over trials that had a prediction and a measurement; None if there were none.
    mean_predicted: float | None
    mean_measured: float | None
    accepted: int = 0
    rejected: int = 0


def record_within(connection: sqlite3.Connection, run: int | None, trials: Iterable[Trial]) -> None:
    """Add trials inside a transaction of the caller's."""
    now = time.time()
    connection.executemany(
        "INSERT INTO trials (run, at, kind, subject, state, predicted, measured, hit, arch, features)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(run, now, t.kind, t.subject, t.state, t.predicted, t.measured, int(t.hit), t.arch),
                json.dumps(dict(t.features)) if t.features else "",
            )
            for t in trials
        ],
    )


def record_trials(connection: sqlite3.Connection, run: int | None, trials: Iterable[Trial]) -> None:
    """Add trials, durably; `run` None for a quick fix judged on its own."""
    with transaction(connection):
        record_within(connection, run, trials)


def record_decision(
    connection: sqlite3.Connection,
    *,
    path: str,
    kernel: str,
    rule: str,
    finding: str = "",
    accepted: bool,
    run: int | None = None,
) -> None:
    """Note that the user took or turned down an offered edit."""
    with transaction(connection):
        connection.execute(
            "INSERT INTO decisions (run, at, path, kernel, rule, finding, accepted)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (run, time.time(), path, kernel, rule, finding, int(accepted)),
        )


def hit_rates(connection: sqlite3.Connection, like: Mapping[str, float] | None = None) -> list[HitRate]:
    """All rules and tools that were ever tried or decided on, most trials first.

    With `like`, the features of a kernel, a trial counts as much as its kernel is like that one (`likeness`): what
    helped there is expected to help here. A trial of a kernel whose features are not known counts for a third.
    """
    columns: tuple[tuple[SubjectKind, str], ...] = (("rule", "rule"), ("tool", "finding"))
    decided: dict[tuple[SubjectKind, str], tuple[int, int]] = {
        (kind, row["subject"]): (row["yes"], row["no"])
        for kind, column in columns
        for row in connection.execute(
            f"SELECT {column} AS subject, sum(accepted) AS yes, sum(1 - accepted) AS no"
            f" FROM decisions WHERE {column} != '' GROUP BY {column}"
        )
    }
    groups: dict[tuple[SubjectKind, str], list[sqlite3.Row]] = {key: [] for key in decided}
    for row in connection.execute("SELECT kind, subject, predicted, measured, hit, features FROM trials"):
        groups.setdefault((row["kind"], row["subject"]), []).append(row)
    rates = [
        _rate(kind, subject, members, decided.get((kind, subject), (0, 0)), like)
        for (kind, subject), members in groups.items()
    ]
    return sorted(rates, key=lambda r: (-r.trials, r.kind, r.subject))


def _rate(
    kind: SubjectKind,
    subject: str,
    rows: list[sqlite3.Row],
    decided: tuple[int, int],
    like: Mapping[str, float] | None,
) -> HitRate:
    weights = [_weight(row["features"], like) for row in rows]
    both = [(row, w) for row, w in zip(rows, weights, strict=True) if row["predicted"] and row["measured"]]
    return HitRate(
        kind=kind,
        subject=subject,
        trials=sum(weights),
        hits=sum(weight * row["hit"] for row, weight in zip(rows, weights, strict=True)),
        mean_predicted=_geometric_mean([(row["predicted"], weight) for row, weight in both]),
        mean_measured=_geometric_mean([(row["measured"], weight) for row, weight in both]),
        accepted=decided[0],
        rejected=decided[1],
    )


def _weight(features: str, like: Mapping[str, float] | None) -> float:
    if like is None:
        return 1
    return likeness(json.loads(features), like) if features else UNKNOWN


def _geometric_mean(factors: list[tuple[float, float]]) -> float | None:
    total = sum(weight for _, weight in factors)
    return math.exp(sum(w * math.log(f) for f, w in factors) / total) if total > 0 else None


def likeness(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """1 for equal features, towards 0 for others.

    Findings are compared over all that either has: one that a kernel does not have counts as 0. Other features that
    only one of them knows are left out.
    """
    names = {
        name for name in {**one, **other} if name.startswith("finding:") or (name in one and name in other)
    }
    if not names:
        return 0.0
    differences = [(one.get(name, 0.0) - other.get(name, 0.0)) ** 2 for name in names]
    return math.exp(-sum(differences) / len(differences) / SCALE)
