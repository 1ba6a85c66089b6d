# SPDX-License-Identifier: Apache-2.0
"""Opens the one SQLite database of a user, brings it to the current schema, and runs transactions on it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from warplens.store.schema import MIGRATIONS
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
