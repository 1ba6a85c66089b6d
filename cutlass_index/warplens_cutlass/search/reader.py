# SPDX-License-Identifier: Apache-2.0
"""An open index, with what searches ask of it again and again."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from warplens_cutlass.corpus import Corpus
from warplens_cutlass.store.schema import open_to_read
from warplens_cutlass.words import edit_distance

K = TypeVar("K")
V = TypeVar("V")
#: Definitions, and names with their definitions and users, that an open index remembers.
_KEPT = 4000
#: Where words are counted; what definitions lack is looked for in files, then in the thesaurus.
_VOCABULARIES = ("symbol_vocabulary", "file_vocabulary", "concept_vocabulary")


class SymbolHit(msgspec.Struct, frozen=True):
    """A row of `symbols` with its file, as ranking needs it."""

    id: int
    file_id: int
    path: str
    role: str
    name: str
    qualified_name: str
    kind: str
    line: int
    end_line: int
    offset: int
    signature: str
    doc: str
    specialisation: str
    arch: frozenset[str]
    member: bool
    declaration_only: bool
    #: Files that include its file.
    included: int


_COLUMNS = (
    "s.id, s.file_id, f.path, f.role, n.name, s.qualified_name, s.kind, s.line, s.end_line, s.offset, s.signature, "
    "s.doc, s.specialisation, s.arch, s.member, s.declaration_only, f.included"
)
_FROM = "symbols s JOIN files f ON f.id = s.file_id JOIN names n ON n.id = s.name_id"


class Reader:
    """One corpus opened for reading. Safe to use from several threads, one query at a time."""

    def __init__(self, corpus: Corpus, database: Path) -> None:
        self.corpus = corpus
        self.database = database
        self.lock = threading.RLock()
        self._db = open_to_read(database)
        self._version = -1
        self.refresh()

    def refresh(self) -> None:
        """Forget what was remembered when another connection has changed the index since."""
        version = int(self._db.execute("PRAGMA data_version").fetchone()[0])
        if version == self._version:
            return
        self._version = version
        self._idf: dict[str, float] = {}
        self._paths: dict[str, list[int]] = {}
        self._files: list[tuple[str, int]] = []
        self._uses: dict[str, int] = {}
        self._hits: dict[int, SymbolHit] = {}
        self._named: dict[tuple[str, ...], list[SymbolHit]] = {}
        self._users: dict[str, list[tuple[object, ...]]] = {}
        row = self._db.execute("SELECT count(*) FROM symbol_words").fetchone()
        self._documents = max(int(row[0]), 1)

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """All rows of a query."""
        return self._db.execute(sql, parameters).fetchall()

    def idf(self, word: str) -> float:
        """Inverse document frequency of a stemmed word over definitions; 0 for a word that does not occur."""
        value = self._idf.get(word)
        if value is None:
            value = next((v for table in _VOCABULARIES if (v := self._rarity(word, table))), 0.0)
            self._idf[word] = value
        return value

    def _rarity(self, word: str, table: str) -> float:
        row = self._db.execute(f"SELECT doc FROM {table} WHERE term = ?", (word,)).fetchone()
        return math.log(1 + self._documents / row[0]) if row else 0.0

    def closest_word(self, word: str) -> str:
        """The known word that a misspelt one most likely stands for; "" when none is near."""
        best, distance = "", 3 if len(word) > 7 else 2
        low, high = word[:2], word[:1] + chr(ord(word[1]) + 1)
        for (term,) in self._db.execute(
            "SELECT term FROM symbol_vocabulary WHERE term >= ? AND term < ?", (low, high)
        ):
            if abs(len(term) - len(word)) < distance and (d := edit_distance(word, term)) < distance:
                best, distance = term, d
        return best

    def files_like(self, part: str) -> list[int]:
        """Ids of files with a definition whose path holds `part`, at most twelve."""
        found = self._paths.get(part)
        if found is None:
            if not self._files:
                self._files = self._db.execute("SELECT path, id FROM files WHERE main_symbol > 0").fetchall()
            found = self._paths[part] = [key for path, key in self._files if part in path][:12]
        return found

    def symbols(self, ids: Iterable[int]) -> dict[int, SymbolHit]:
        """Symbols by id."""
        wanted = set(ids)
        found = {i: self._hits[i] for i in wanted if i in self._hits}
        missing = ",".join(map(str, wanted - found.keys()))
        if missing:
            for row in self._db.execute(f"SELECT {_COLUMNS} FROM {_FROM} WHERE s.id IN ({missing})"):
                hit = found[row[0]] = _hit(row)
                _keep(self._hits, hit.id, hit)
        return found

    def symbols_named(self, names: Iterable[str], limit: int = 400) -> list[SymbolHit]:
        """Symbols with one of these names, exactly."""
        wanted = tuple(names)
        found = self._named.get(wanted)
        if found is None:
            marks = ",".join("?" * len(wanted))
            sql = f"SELECT {_COLUMNS} FROM {_FROM} WHERE n.name IN ({marks}) LIMIT {limit}"
            found = [_hit(row) for row in self._db.execute(sql, wanted)]
            if len(wanted) == 1:  # concepts name the same definitions again and again
                _keep(self._named, wanted, found)
        return found

    def there(self, hits: Sequence[SymbolHit]) -> list[SymbolHit]:
        """Without what stands in files that were deleted since the index was built."""
        exists: dict[str, bool] = {}
        for hit in hits:
            if hit.path not in exists:
                exists[hit.path] = (self.corpus.root_path / hit.path).is_file()
        return [hit for hit in hits if exists[hit.path]]

    def examples_with(self, name: str) -> list[tuple[object, ...]]:
        """Examples that mention a name: (file id, path, first line, count, bytes, architectures, main symbol)."""
        found = self._users.get(name)
        if found is None:
            sql = (
                "SELECT f.id, f.path, m.line, m.count, f.bytes, f.arch, f.main_symbol FROM mentions m "
                "JOIN files f ON f.id = m.file_id WHERE m.name_id = (SELECT id FROM names WHERE name = ?) "
                "AND f.role = 'example' AND f.main_symbol > 0"
            )
            found = self.rows(sql, (name,))
            _keep(self._users, name, found)
        return found

    def uses(self, name: str) -> int:
        """How many files mention a name."""
        count = self._uses.get(name)
        if count is None:
            sql = "SELECT count(*) FROM mentions WHERE name_id = (SELECT id FROM names WHERE name = ?)"
            count = self._uses[name] = int(self._db.execute(sql, (name,)).fetchone()[0])
        return count


def _keep(cache: dict[K, V], key: K, value: V) -> None:
    """Remember, and begin anew when full: cheaper than to track what was used last."""
    if len(cache) >= _KEPT:
        cache.clear()
    cache[key] = value


def _hit(row: Sequence[object]) -> SymbolHit:
    values = list(row)
    values[13] = frozenset(str(row[13]).split())
    values[14], values[15] = bool(row[14]), bool(row[15])
    return SymbolHit(*values)  # type: ignore[arg-type]


_readers: dict[str, Reader] = {}
_guard = threading.Lock()


def open_reader(corpus: Corpus, database: Path) -> Reader:
    """The reader of a generation; kept until another generation of the corpus is asked for."""
    key = f"{corpus.name}\0{corpus.root}\0{os.environ.get('WARPLENS_HOME', '')}"
    with _guard:
        reader = _readers.get(key)
        if reader is not None and reader.database == database:
            return reader
        fresh = Reader(corpus, database)
        _readers[key] = fresh
        return fresh


def forget_reader(reader: Reader) -> None:
    """Drop a reader whose file proved damaged, or whose index was changed."""
    with _guard:
        for key in [k for k, r in _readers.items() if r is reader]:
            del _readers[key]
    with reader.lock:
        try:
            reader.close()
        except sqlite3.Error:
            return
