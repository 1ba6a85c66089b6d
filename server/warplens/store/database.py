# SPDX-License-Identifier: Apache-2.0
"""The one SQLite database of a user: its schema, opening it and bringing it to the current one, transactions."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from warplens_tools.errors import InputError
from warplens_tools.home import warplens_home

FILE_NAME = "warplens.sqlite3"
#: A writer holds the lock for one small transaction; a minute of waiting means something is stuck.
BUSY_SECONDS = 60.0


def data_folder(environment: Mapping[str, str]) -> Path:
    """The folder that holds the database; see `warplens_home`."""
    return warplens_home(environment)


@contextlib.contextmanager
def open_store(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the database in `folder`, made if need be; several processes may hold one.

    Raises:
        InputError: the folder cannot be written, the file is no database, or a newer Warplens wrote it.
    """
    path = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        connection = _connect(path)
    except OSError as error:
        raise InputError(
            f"cannot use the data folder {folder}: {error.strerror or error}",
            remedy="set WARPLENS_HOME to a folder you can write",
        ) from error
    except sqlite3.DatabaseError as error:
        raise InputError(
            f"cannot open {path}: {error}", remedy="move the file aside; it is made anew"
        ) from error
    with contextlib.closing(connection):
        yield connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing; on return it is on disk, so that a killed process loses nothing it was told."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    try:
        # Switching to WAL ignores the busy timeout, so first openers take turns.
        with FileLock(path.with_suffix(".lock"), timeout=BUSY_SECONDS):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            _migrate(connection, path)
    except Timeout as error:
        connection.close()
        raise InputError(f"another process keeps {path} locked", remedy="end it and try again") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise InputError(
            f"{path} was written by a newer Warplens (schema {version}, this one knows {len(MIGRATIONS)})",
            remedy="upgrade Warplens, or set WARPLENS_HOME to another folder",
        )
    for number in range(version, len(MIGRATIONS)):
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{MIGRATIONS[number]}\nPRAGMA user_version = {number + 1};\nCOMMIT;"
        )


MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        started_at REAL NOT NULL,
        finished_at REAL,
        path TEXT NOT NULL,
        kernel TEXT NOT NULL,
        baseline_hash TEXT NOT NULL,
        workload_hash TEXT NOT NULL,
        strategy TEXT NOT NULL,
        seed INTEGER NOT NULL,
        settings TEXT NOT NULL,
        gpu TEXT NOT NULL DEFAULT '',
        driver TEXT NOT NULL DEFAULT '',
        process INTEGER NOT NULL,
        process_started REAL NOT NULL,
        outcome TEXT NOT NULL DEFAULT '',
        speedup REAL
    );
    CREATE INDEX runs_by_target ON runs (path, kernel, baseline_hash, workload_hash, strategy);

    CREATE TABLE steps (
        run INTEGER NOT NULL REFERENCES runs (id),
        number INTEGER NOT NULL,
        at REAL NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('baseline', 'ask', 'tell', 'confirm')),
        candidate TEXT NOT NULL DEFAULT '',
        payload TEXT NOT NULL,
        PRIMARY KEY (run, number)
    ) WITHOUT ROWID;
    CREATE TRIGGER steps_keep BEFORE UPDATE ON steps
        BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
    CREATE TRIGGER steps_stay BEFORE DELETE ON steps
        BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

    CREATE TABLE evidence (
        id INTEGER PRIMARY KEY,
        run INTEGER REFERENCES runs (id),
        at REAL NOT NULL,
        path TEXT NOT NULL,
        kernel TEXT NOT NULL,
        text_hash TEXT NOT NULL,
        observations TEXT NOT NULL
    );
    CREATE INDEX evidence_by_run ON evidence (run);

    CREATE TABLE trials (
        id INTEGER PRIMARY KEY,
        run INTEGER REFERENCES runs (id),
        at REAL NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('rule', 'tool')),
        subject TEXT NOT NULL,
        state TEXT NOT NULL,
        predicted REAL,
        measured REAL,
        hit INTEGER NOT NULL,
        arch TEXT NOT NULL DEFAULT ''
    );
    CREATE INDEX trials_by_subject ON trials (kind, subject);

    CREATE TABLE decisions (
        id INTEGER PRIMARY KEY,
        run INTEGER REFERENCES runs (id),
        at REAL NOT NULL,
        path TEXT NOT NULL,
        kernel TEXT NOT NULL,
        rule TEXT NOT NULL,
        finding TEXT NOT NULL DEFAULT '',
        accepted INTEGER NOT NULL
    );
    CREATE INDEX decisions_by_rule ON decisions (rule);
    """,
    """
    ALTER TABLE trials ADD COLUMN features TEXT NOT NULL DEFAULT '';
    """,
)
