# SPDX-License-Identifier: Apache-2.0
"""Writes and removes the rows of files in an open index, and the thesaurus.

The thesaurus (`concepts.toml`) says in words of the field what the parts and examples of CUTLASS do. It is in the
index, so that a search need not read it.
"""

from __future__ import annotations

import hashlib
import posixpath
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from warplens_cutlass.model import Skipped
from warplens_cutlass.store.rows import FileRows, SymbolRow
from warplens_cutlass.store.walk import FoundFile
from warplens_cutlass.vocabulary import query_words
from warplens_cutlass.words import normal_name, text_words
from warplens_tools.decode import from_toml

_SYMBOL = "INSERT INTO symbols VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_SYMBOL_WORDS = (
    "INSERT INTO symbol_words(rowid, name, path, signature, doc, remarks, body) VALUES (?,?,?,?,?,?,?)"
)


class Loader:
    """Inserts files into one connection; keeps the ids of names it has met."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._names: dict[str, int] = dict(connection.execute("SELECT name, id FROM names"))
        self._defined = {row[0] for row in connection.execute("SELECT id FROM names WHERE defined")}
        self._next_name = 1 + max(self._names.values(), default=0)
        row = connection.execute("SELECT coalesce(max(id), 0) FROM symbols").fetchone()
        self._next_symbol = 1 + int(row[0])
        #: Ids and folders of the files added through this loader.
        self._added: list[tuple[int, str]] = []

    def add(self, rows: FileRows, found: FoundFile) -> None:
        """Insert one file and everything in it."""
        cursor = self._db.execute(
            "INSERT INTO files(path, role, size, mtime_ns, bytes, error_bytes, grammar, title, brief, arch, "
            "main_symbol, included) VALUES (?,?,?,?,?,?,?,?,?,?,?,0)",
            (rows.path, rows.role, found.size, found.mtime_ns, rows.bytes, rows.error_bytes, rows.grammar,
             rows.title, rows.brief, rows.arch, self._next_symbol + rows.main_symbol if rows.main_symbol >= 0 else 0),
        )  # fmt: skip
        file_id = int(cursor.lastrowid or 0)
        self._added.append((file_id, rows.path.rsplit("/", 1)[0]))
        self._db.execute("INSERT INTO file_words(rowid, path, title, doc, names, remarks, body) VALUES (?,?,?,?,?,?,?)",
                         (file_id, *rows.words))  # fmt: skip
        self._add_symbols(rows.symbols, file_id)
        self._add_sections(rows, file_id)
        mentions = [
            (self._name(name, defined=False), file_id, count, line) for name, count, line in rows.mentions
        ]
        self._db.executemany("INSERT INTO mentions VALUES (?,?,?,?)", mentions)
        self._db.executemany("INSERT INTO includes VALUES (?,?)", [(file_id, t) for t in rows.includes])
        self._db.executemany(
            "INSERT INTO listed VALUES (?,?,?)", [(file_id, *entry) for entry in rows.listed]
        )

    def give_listed_titles(self) -> None:
        """Give the added files of an example what the list of examples says of its folder."""
        listed = {
            f"{path.rsplit('/', 1)[0]}/{folder}": title
            for path, folder, title in self._db.execute(
                "SELECT f.path, l.folder, l.title FROM listed l JOIN files f ON f.id = l.file_id"
            )
        }
        for file_id, folder in self._added:
            title = listed.get(folder)
            if title is not None:
                words = " ".join(text_words(title))
                self._db.execute("UPDATE files SET title = ? WHERE id = ? AND title = ''", (title, file_id))
                self._db.execute(
                    "UPDATE file_words SET title = title || ' ' || ? WHERE rowid = ?", (words, file_id)
                )

    def _add_symbols(self, symbols: Iterable[SymbolRow], file_id: int) -> None:
        table, words, ptx = [], [], []
        for s in symbols:
            key = self._next_symbol
            self._next_symbol += 1
            table.append((key, file_id, self._name(s.name, defined=True), s.qualified_name, s.kind, s.line, s.end_line,
                          s.offset, s.signature, s.doc, s.template_parameters, s.specialisation, s.guards, s.arch,
                          s.atom, s.member, s.declaration_only))  # fmt: skip
            ptx += [(operation, key) for operation in s.ptx]
            if s.words is not None:
                words.append((key, *s.words))
        self._db.executemany(_SYMBOL, table)
        self._db.executemany("INSERT OR IGNORE INTO ptx VALUES (?,?)", ptx)
        self._db.executemany(_SYMBOL_WORDS, words)

    def _add_sections(self, rows: FileRows, file_id: int) -> None:
        for section in rows.sections:
            cursor = self._db.execute(
                "INSERT INTO sections(file_id, title, line, end_line) VALUES (?,?,?,?)",
                (file_id, section.title, section.line, section.end_line),
            )
            self._db.execute("INSERT INTO section_words(rowid, title, path, body) VALUES (?,?,?,?)",
                             (cursor.lastrowid, *section.words))  # fmt: skip

    def _name(self, name: str, *, defined: bool) -> int:
        key = self._names.get(name)
        if key is None:
            key = self._names[name] = self._next_name
            self._next_name += 1
            norm = normal_name(name) if defined else ""
            self._db.execute("INSERT INTO names VALUES (?,?,?,?)", (key, name, norm, defined))
            if defined:
                self._define(key, norm)
        elif defined and key not in self._defined:
            norm = normal_name(name)
            self._db.execute("UPDATE names SET defined = 1, norm = ? WHERE id = ?", (norm, key))
            self._define(key, norm)
        return key

    def _define(self, key: int, norm: str) -> None:
        self._defined.add(key)
        self._db.execute("INSERT INTO name_grams(rowid, norm) VALUES (?,?)", (key, norm))


def remove_file(connection: sqlite3.Connection, path: str) -> None:
    """Delete a file and everything in it; names stay, and without a definition answer nothing."""
    row = connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
    if row is None:
        return
    (file_id,) = row
    one = (file_id,)
    connection.execute("DELETE FROM ptx WHERE symbol_id IN (SELECT id FROM symbols WHERE file_id = ?)", one)
    for words, table in (("symbol_words", "symbols"), ("section_words", "sections")):
        connection.execute(
            f"DELETE FROM {words} WHERE rowid IN (SELECT id FROM {table} WHERE file_id = ?)", one
        )
        connection.execute(f"DELETE FROM {table} WHERE file_id = ?", one)
    connection.execute("DELETE FROM file_words WHERE rowid = ?", one)
    for table in ("mentions", "listed", "includes"):
        connection.execute(f"DELETE FROM {table} WHERE file_id = ?", one)
    connection.execute("DELETE FROM files WHERE id = ?", one)


def count_includers(connection: sqlite3.Connection) -> None:
    """State anew for each file how many others include it."""
    paths = dict(connection.execute("SELECT id, path FROM files").fetchall())
    ids = {path: key for key, path in paths.items()}
    ends: dict[str, str] = {}
    for path in sorted(ids, key=len, reverse=True):
        parts = path.split("/")
        ends.update({"/".join(parts[i:]): path for i in range(len(parts))})
    counts: Counter[int] = Counter()
    for file_id, target in connection.execute("SELECT file_id, target FROM includes"):
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(paths[file_id]), target))
        found = beside if beside in ids else ends.get(target.removeprefix("./"))
        if found is not None:
            counts[ids[found]] += 1
    known = dict(connection.execute("SELECT id, included FROM files WHERE included > 0").fetchall())
    changed = [(counts[key], key) for key in {*counts, *known} if counts[key] != known.get(key, 0)]
    connection.executemany("UPDATE files SET included = ? WHERE id = ?", changed)


def load_concepts(connection: sqlite3.Connection) -> None:
    """State the thesaurus anew."""
    connection.execute("DELETE FROM concepts")
    connection.execute("DELETE FROM concept_words")
    for key, c in enumerate(read_concepts(), start=1):
        row = (key, c.does, " ".join(c.symbols), " ".join(c.files))
        connection.execute("INSERT INTO concepts VALUES (?,?,?,?)", row)
        words = " ".join(query_words(f"{c.does}, {c.words}")), " ".join(query_words(" ".join(c.symbols)))
        connection.execute("INSERT INTO concept_words(rowid, words, names) VALUES (?,?,?)", (key, *words))
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('concepts', ?)", (edition(),))


def has_concepts(connection: sqlite3.Connection) -> bool:
    """Whether the thesaurus in the index is the one of this edition."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'concepts'").fetchone()
    return row is not None and str(row[0]) == edition()


def replace_skipped(
    connection: sqlite3.Connection, skipped: Iterable[Skipped], found: Mapping[str, FoundFile]
) -> None:
    """State anew what was left out; with size and time, so that a file that changes is tried again."""
    connection.execute("DELETE FROM skipped")
    rows = [(s.path, s.reason, found.get(s.path)) for s in skipped]
    connection.executemany(
        "INSERT OR REPLACE INTO skipped VALUES (?,?,?,?)",
        [(path, reason, f.size if f else -1, f.mtime_ns if f else -1) for path, reason, f in rows],
    )


FILE = Path(__file__).parents[1] / "concepts.toml"


class Concept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. Symbols and files are looked up in the corpus at hand; what it lacks is passed over."""

    #: What it does, after "it …": "loads matrix fragments with ldmatrix".
    does: str
    #: Further words and phrases that people use for it.
    words: str
    #: Names of definitions that provide it, the one to use first.
    symbols: tuple[str, ...] = ()
    #: Parts of paths of files that show it, the best first.
    files: tuple[str, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    concept: tuple[Concept, ...]


def read_concepts() -> tuple[Concept, ...]:
    """All entries, in the order of the file."""
    return from_toml(FILE.read_bytes(), _File).concept


def edition() -> str:
    """What the index remembers of the file, to see that it changed: a digest of its text."""
    return hashlib.sha256(FILE.read_bytes()).hexdigest()[:16]
