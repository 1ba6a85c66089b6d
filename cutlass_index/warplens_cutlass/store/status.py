# SPDX-License-Identifier: Apache-2.0
"""What is indexed, how well it was read, and what was left out."""

from __future__ import annotations

import sqlite3
import time

import msgspec

from warplens_cutlass.corpus import Corpus, corpora
from warplens_cutlass.index_settings import IndexSettings
from warplens_cutlass.model import Skipped
from warplens_cutlass.store.generation import current_index
from warplens_cutlass.store.schema import open_to_read
from warplens_cutlass.store.walk import FoundFile, walk


class Unread(msgspec.Struct, frozen=True):
    """A file with bytes inside ERROR nodes."""

    path: str
    error_bytes: int
    bytes: int


class CorpusStatus(msgspec.Struct, frozen=True):
    """The state of one corpus. Shares are 0 to 1; `parsed_share` is None without an index."""

    corpus: Corpus
    #: "ready", "changed" (files changed since), "absent" (no usable index) or "gone" (no folder).
    state: str
    files: int = 0
    symbols: int = 0
    examples: int = 0
    index_bytes: int = 0
    #: Seconds since the last build or update.
    age: float = 0.0
    changed: int = 0
    skipped: tuple[Skipped, ...] = ()
    #: Share of header bytes, and of all parsed bytes, outside ERROR nodes after masking.
    header_share: float | None = None
    parsed_share: float | None = None
    worst: tuple[Unread, ...] = ()
    #: Definitions by kind.
    kinds: tuple[tuple[str, int], ...] = ()


def status(*, settings: IndexSettings | None = None, worst: int = 10) -> tuple[CorpusStatus, ...]:
    """The state of every registered corpus."""
    return tuple(corpus_status(c, settings=settings, worst=worst) for c in corpora())


def corpus_status(corpus: Corpus, *, settings: IndexSettings | None = None, worst: int = 10) -> CorpusStatus:
    """The state of one corpus; walks its folder to count what changed."""
    database = current_index(corpus)
    if not corpus.root_path.is_dir():
        return CorpusStatus(corpus, "gone")
    if database is None:
        return CorpusStatus(corpus, "absent")
    connection = open_to_read(database)
    try:
        return _of_index(corpus, connection, settings or IndexSettings(), worst, database.stat().st_size)
    except sqlite3.DatabaseError:
        return CorpusStatus(corpus, "absent")
    finally:
        connection.close()


def _of_index(
    corpus: Corpus, db: sqlite3.Connection, settings: IndexSettings, worst: int, size: int
) -> CorpusStatus:
    stamps = {p: (s, m) for p, s, m in db.execute(
        "SELECT path, size, mtime_ns FROM files UNION ALL SELECT path, size, mtime_ns FROM skipped WHERE size >= 0"
    )}  # fmt: skip
    changed = _changed(list(walk(corpus.root_path, settings, [])), stamps)
    built = db.execute("SELECT value FROM meta WHERE key = 'built'").fetchone()
    files, symbols = (db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("files", "symbols"))
    examples = db.execute(
        "SELECT count(*) FROM files WHERE role = 'example' AND path LIKE '%.cu'"
    ).fetchone()[0]
    bad = db.execute(
        "SELECT path, error_bytes, bytes FROM files WHERE error_bytes > 0 ORDER BY error_bytes DESC LIMIT ?",
        (worst,),
    )
    kinds = db.execute("SELECT kind, count(*) FROM symbols GROUP BY kind ORDER BY 2 DESC")
    return CorpusStatus(
        corpus=corpus,
        state="changed" if changed else "ready",
        files=files,
        symbols=symbols,
        examples=examples,
        index_bytes=size,
        age=max(0.0, time.time() - float(built[0])) if built else 0.0,
        changed=changed,
        skipped=tuple(Skipped(p, r) for p, r in db.execute("SELECT path, reason FROM skipped ORDER BY path")),
        header_share=_share(db, "role = 'header'"),
        parsed_share=_share(db, "grammar <> ''"),
        worst=tuple(Unread(*row) for row in bad),
        kinds=tuple((k, n) for k, n in kinds),
    )


def _changed(found: list[FoundFile], stamps: dict[str, tuple[int, int]]) -> int:
    known = {f.path for f in found}
    differing = sum(stamps.get(f.path) != (f.size, f.mtime_ns) for f in found)
    return differing + sum(path not in known for path in stamps)


def _share(db: sqlite3.Connection, where: str) -> float | None:
    bad, total = db.execute(f"SELECT sum(error_bytes), sum(bytes) FROM files WHERE {where}").fetchone()
    return 1 - bad / total if total else None
