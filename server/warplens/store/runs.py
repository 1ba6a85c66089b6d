# SPDX-License-Identifier: Apache-2.0
"""Optimisation runs and their append-only journal.

A run's journal is the sequence of what was paid for: the baseline, each candidate handed out (`ask`),
each verdict (`tell`), each confirmation. Payloads are JSON of the plain data types; this room does not
look inside them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Literal

import msgspec
import psutil

from warplens.store.database import transaction

StepKind = Literal["baseline", "ask", "tell", "confirm"]


class Target(msgspec.Struct, frozen=True):
    """What a run works on: two runs of an equal target may share verdicts."""

    #: Absolute.
    path: str
    kernel: str
    #: SHA-256 of the text the run began with.
    baseline_hash: str
    #: SHA-256 of how the program is built and run.
    workload_hash: str
    #: "mcts" or "random".
    strategy: str
    seed: int


class Run(msgspec.Struct, frozen=True):
    """One optimisation run; times are seconds since the epoch."""

    id: int
    started_at: float
    finished_at: float | None
    target: Target
    settings: str
    gpu: str
    driver: str
    outcome: str
    speedup: float | None


class Step(msgspec.Struct, frozen=True):
    """One line of a journal; `payload` is JSON."""

    number: int
    kind: StepKind
    candidate: str
    payload: str
    #: Seconds since the epoch.
    at: float = 0.0


def start_run(
    connection: sqlite3.Connection, target: Target, *, settings: str, gpu: str = "", driver: str = ""
) -> int:
    """Begin a run owned by this process; its id."""
    process = psutil.Process()
    with transaction(connection):
        cursor = connection.execute(
            "INSERT INTO runs (started_at, path, kernel, baseline_hash, workload_hash, strategy, seed,"
            " settings, gpu, driver, process, process_started) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                time.time(),
                *msgspec.structs.astuple(target),
                settings,
                gpu,
                driver,
                process.pid,
                process.create_time(),
            ),
        )
    return int(cursor.lastrowid or 0)


def find_run(connection: sqlite3.Connection, target: Target) -> Run | None:
    """The latest run of exactly this target that no other living process is working on."""
    rows = connection.execute(
        "SELECT * FROM runs WHERE path = ? AND kernel = ? AND baseline_hash = ? AND workload_hash = ?"
        " AND strategy = ? AND seed = ? ORDER BY id DESC",
        msgspec.structs.astuple(target),
    )
    free = (row for row in rows if row["finished_at"] is not None or not _owner_lives(row))
    return next((_run(row) for row in free), None)


def adopt_run(connection: sqlite3.Connection, run: int) -> bool:
    """Make this process the owner of a run; False where a living process took it first."""
    process = psutil.Process()
    with transaction(connection):
        row = connection.execute("SELECT * FROM runs WHERE id = ?", (run,)).fetchone()
        if row is None or (row["finished_at"] is None and _owner_lives(row)):
            return False
        connection.execute(
            "UPDATE runs SET finished_at = NULL, outcome = '', process = ?, process_started = ? WHERE id = ?",
            (process.pid, process.create_time(), run),
        )
    return True


def finish_run(connection: sqlite3.Connection, run: int, *, outcome: str, speedup: float | None) -> None:
    """Close a run with one word for how it ended and the confirmed speedup, if any."""
    with transaction(connection):
        connection.execute(
            "UPDATE runs SET finished_at = ?, outcome = ?, speedup = ? WHERE id = ?",
            (time.time(), outcome, speedup, run),
        )


def list_runs(connection: sqlite3.Connection, *, limit: int = 20) -> list[Run]:
    """The latest runs, newest first."""
    rows = connection.execute("SELECT * FROM runs ORDER BY id DESC LIMIT ?", (limit,))
    return [_run(row) for row in rows]


def read_run(connection: sqlite3.Connection, number: int) -> Run | None:
    """The run of that number."""
    row = connection.execute("SELECT * FROM runs WHERE id = ?", (number,)).fetchone()
    return _run(row) if row is not None else None


def append_step(
    connection: sqlite3.Connection, run: int, kind: StepKind, payload: str, *, candidate: str = ""
) -> int:
    """Add one step to a run's journal, durably; its number."""
    with transaction(connection):
        return append_within(connection, run, kind, payload, candidate=candidate)


def append_within(
    connection: sqlite3.Connection, run: int, kind: StepKind, payload: str, *, candidate: str = ""
) -> int:
    """`append_step` inside a transaction of the caller's."""
    row = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM steps WHERE run = ?", (run,))
    number = int(row.fetchone()[0])
    connection.execute(
        "INSERT INTO steps (run, number, at, kind, candidate, payload) VALUES (?, ?, ?, ?, ?, ?)",
        (run, number, time.time(), kind, candidate, payload),
    )
    return number


def read_steps(connection: sqlite3.Connection, run: int) -> list[Step]:
    """A run's journal in order."""
    rows = connection.execute(
        "SELECT number, kind, candidate, payload, at FROM steps WHERE run = ? ORDER BY number", (run,)
    )
    return [Step(row["number"], row["kind"], row["candidate"], row["payload"], row["at"]) for row in rows]


def _owner_lives(row: sqlite3.Row) -> bool:
    if row["process"] == os.getpid():
        return False
    try:
        started = psutil.Process(row["process"]).create_time()
    except psutil.Error:
        return False
    return abs(started - float(row["process_started"])) < 1.0


def _run(row: sqlite3.Row) -> Run:
    return Run(
        id=row["id"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        target=Target(
            row["path"],
            row["kernel"],
            row["baseline_hash"],
            row["workload_hash"],
            row["strategy"],
            row["seed"],
        ),
        settings=row["settings"],
        gpu=row["gpu"],
        driver=row["driver"],
        outcome=row["outcome"],
        speedup=row["speedup"],
    )
