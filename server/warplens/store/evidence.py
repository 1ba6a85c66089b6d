# SPDX-License-Identifier: Apache-2.0
"""What was observed of a kernel version, kept so that a later question needs no second measurement."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence

import msgspec

from warplens.store.database import transaction
from warplens_tools.evidence import Observation


def record_evidence(
    connection: sqlite3.Connection,
    *,
    path: str,
    kernel: str,
    text_hash: str,
    observations: Sequence[Observation],
    run: int | None = None,
) -> None:
    """Keep the observations of one version of a kernel."""
    with transaction(connection):
        connection.execute(
            "INSERT INTO evidence (run, at, path, kernel, text_hash, observations) VALUES (?, ?, ?, ?, ?, ?)",
            (run, time.time(), path, kernel, text_hash, msgspec.json.encode(observations).decode()),
        )


def read_evidence(connection: sqlite3.Connection, *, text_hash: str, kernel: str) -> tuple[Observation, ...]:
    """The latest observations of that version of a kernel; empty where there are none."""
    row = connection.execute(
        "SELECT observations FROM evidence WHERE text_hash = ? AND kernel = ? ORDER BY id DESC LIMIT 1",
        (text_hash, kernel),
    ).fetchone()
    return () if row is None else msgspec.json.decode(row["observations"], type=tuple[Observation, ...])
