# SPDX-License-Identifier: Apache-2.0
"""Builds and updates the index of a corpus: atomic, alone, restartable.

Each full build writes a new generation (`index-<n>.sqlite`) and then moves the file `current` onto its name,
so that readers see the old index or the new one. An update is one SQLite transaction on the current
generation. Both hold a file lock; a process that had to wait finds nothing left to do. A kill leaves an
unreferenced generation (removed by the next build) or a journal that SQLite rolls back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import filelock
import msgspec

from warplens_cutlass.corpus import Corpus, index_folder, register, unregister
from warplens_cutlass.index_settings import IndexSettings
from warplens_cutlass.model import Skipped
from warplens_cutlass.store import schema
from warplens_cutlass.store.generation import CURRENT, current_index, current_name
from warplens_cutlass.store.load import (
    Loader,
    count_includers,
    has_concepts,
    load_concepts,
    remove_file,
    replace_skipped,
)
from warplens_cutlass.store.read import read_files
from warplens_cutlass.store.walk import FoundFile, walk
from warplens_tools.errors import InputError, TimeLimitError, WarplensError
from warplens_tools.process.task import UNATTENDED, Task


class BuildReport(msgspec.Struct, frozen=True):
    """What a build or an update did. `seconds` is wall time."""

    corpus: Corpus
    files_read: int
    files_removed: int
    files_total: int
    symbols: int
    skipped: tuple[Skipped, ...]
    seconds: float
    rebuilt: bool


def build(
    root: Path, *, name: str = "", settings: IndexSettings | None = None, task: Task = UNATTENDED
) -> BuildReport:
    """Register a folder as a corpus and build its index from nothing.

    Raises:
        InputError: there is no such folder.
        TimeLimitError: another process holds the index for longer than `settings.lock_timeout`.
        CancelledError: `task` was stopped; the index that was there stays.
    """
    corpus = register(root, name)
    settings = settings or IndexSettings()
    with _locked(corpus, settings):
        return _rebuild(corpus, settings, task)


def update(corpus: Corpus, *, settings: IndexSettings | None = None, task: Task = UNATTENDED) -> BuildReport:
    """Read what changed since the last build; build anew where there is no usable index.

    Raises:
        InputError: the corpus folder is gone.
        TimeLimitError: another process holds the index for longer than `settings.lock_timeout`.
        CancelledError: `task` was stopped; the index stays as it was.
    """
    settings = settings or IndexSettings()
    if not corpus.root_path.is_dir():
        raise InputError(f"the folder of corpus {corpus.name} is gone: {corpus.root}",
                         remedy=f"run `warplens index remove {corpus.name}`")  # fmt: skip
    with _locked(corpus, settings):
        database = current_index(corpus)
        if database is not None:
            with contextlib.suppress(sqlite3.DatabaseError):
                return _update(corpus, database, settings, task)
        return _rebuild(corpus, settings, task)


def remove(corpus: Corpus) -> None:
    """Delete the index and forget the corpus; the folder itself stays."""
    with _locked(corpus, IndexSettings()):
        shutil.rmtree(index_folder(corpus), ignore_errors=True)
    unregister(corpus)


@contextlib.contextmanager
def _locked(corpus: Corpus, settings: IndexSettings) -> Iterator[None]:
    folder = index_folder(corpus)
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder.with_name(folder.name + ".lock"), timeout=settings.lock_timeout)
    try:
        with lock:
            yield
    except filelock.Timeout as error:
        raise TimeLimitError(f"another process is building the index of {corpus.name}") from error


def _rebuild(corpus: Corpus, settings: IndexSettings, task: Task) -> BuildReport:
    started = time.monotonic()
    skipped: list[Skipped] = []
    files = list(walk(corpus.root_path, settings, skipped))
    folder = index_folder(corpus)
    folder.mkdir(parents=True, exist_ok=True)
    path = _next_generation(folder)
    connection = schema.create(path)
    try:
        connection.execute("BEGIN")
        read = _load(connection, corpus, files, skipped, settings, task)
        _finish(connection, corpus, skipped, {f.path: f for f in files}, optimize=True)
        connection.execute("COMMIT")
        report = _report(connection, corpus, skipped, started, read=read, removed=0, rebuilt=True)
    except BaseException:
        connection.close()
        path.unlink(missing_ok=True)
        raise
    connection.close()
    _switch(folder, path)
    task.say(f"indexed {read} files", 1.0)
    return report


def _update(corpus: Corpus, database: Path, settings: IndexSettings, task: Task) -> BuildReport:
    started = time.monotonic()
    skipped: list[Skipped] = []
    connection = schema.open_to_write(database)
    try:
        found = {f.path: f for f in walk(corpus.root_path, settings, skipped)}
        stamps, refused = _stamps(connection, "files"), _stamps(connection, "skipped")
        gone = [path for path in stamps if path not in found]
        stamps |= refused
        changed = [f for f in found.values() if stamps.get(f.path) != (f.size, f.mtime_ns)]
        again = {f.path for f in changed}
        reasons = dict(connection.execute("SELECT path, reason FROM skipped").fetchall())
        skipped += [Skipped(p, reasons[p]) for p in refused if p in found and p not in again]
        read = 0
        if changed or gone or {s.path for s in skipped} != set(refused) or not has_concepts(connection):
            connection.execute("BEGIN IMMEDIATE")
            for path in (*gone, *again):
                remove_file(connection, path)
            read = _load(connection, corpus, changed, skipped, settings, task)
            _finish(connection, corpus, skipped, found, optimize=False)
            connection.execute("COMMIT")
        return _report(connection, corpus, skipped, started, read=read, removed=len(gone), rebuilt=False)
    finally:
        connection.close()


def _stamps(connection: sqlite3.Connection, table: str) -> dict[str, tuple[int, int]]:
    rows = connection.execute(f"SELECT path, size, mtime_ns FROM {table}")
    return {path: (size, mtime) for path, size, mtime in rows}


def _load(
    connection: sqlite3.Connection, corpus: Corpus, files: Sequence[FoundFile], skipped: list[Skipped],
    settings: IndexSettings, task: Task
) -> int:  # fmt: skip
    loader = Loader(connection)
    by_path = {f.path: f for f in files}
    done = 0
    for result in read_files(corpus.root_path, files, settings, task):
        skipped += result.skipped
        for rows in result.files:
            loader.add(rows, by_path[rows.path])
        done += len(result.files) + len(result.skipped)
        task.say(f"{corpus.name}: {done} of {len(files)} files", done / max(len(files), 1))
    loader.give_listed_titles()
    return done


def _finish(
    connection: sqlite3.Connection, corpus: Corpus, skipped: list[Skipped], found: Mapping[str, FoundFile],
    *, optimize: bool,
) -> None:  # fmt: skip
    replace_skipped(connection, skipped, found)
    count_includers(connection)
    if not has_concepts(connection):
        load_concepts(connection)
    facts = {
        "name": corpus.name,
        "root": corpus.root,
        "version": corpus.version,
        "built": str(int(time.time())),
    }
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?,?)", list(facts.items()))
    if optimize:
        for table in ("symbol_words", "file_words", "section_words", "name_grams"):
            connection.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")
        connection.execute("ANALYZE")


def _report(
    connection: sqlite3.Connection, corpus: Corpus, skipped: list[Skipped], started: float,
    *, read: int, removed: int, rebuilt: bool,
) -> BuildReport:  # fmt: skip
    (files,) = connection.execute("SELECT count(*) FROM files").fetchone()
    (symbols,) = connection.execute("SELECT count(*) FROM symbols").fetchone()
    return BuildReport(
        corpus=corpus, files_read=read, files_removed=removed, files_total=files, symbols=symbols,
        skipped=tuple(skipped), seconds=time.monotonic() - started, rebuilt=rebuilt,
    )  # fmt: skip


def _next_generation(folder: Path) -> Path:
    """A name no file has; leftovers of killed builds are deleted, which is safe under the lock."""
    current = current_name(folder)
    numbers = [0]
    for path in folder.glob("index-*"):
        number = path.name.removeprefix("index-").split(".", 1)[0]
        numbers.append(int(number) if number.isdigit() else 0)
        if not path.name.startswith(current or "\0"):
            with contextlib.suppress(OSError):
                path.unlink()
    return folder / f"index-{max(numbers) + 1}.sqlite"


def _switch(folder: Path, path: Path) -> None:
    old = current_name(folder)
    temporary = folder / f"{CURRENT}.{os.getpid()}"
    try:
        temporary.write_text(path.name)
        temporary.replace(folder / CURRENT)
    except OSError as error:
        raise WarplensError(f"cannot switch to the new index in {folder}: {error.strerror}") from error
    if old and old != path.name:
        for leftover in folder.glob(old + "*"):
            with contextlib.suppress(OSError):
                leftover.unlink()
