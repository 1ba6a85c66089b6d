# SPDX-License-Identifier: Apache-2.0
"""The SQLite schema of one corpus. A change of it raises `SCHEMA_VERSION`, and old indexes are rebuilt."""

from __future__ import annotations

import sqlite3
from pathlib import Path

SCHEMA_VERSION = 5

_SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files(
  id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, role TEXT NOT NULL, size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL, bytes INTEGER NOT NULL, error_bytes INTEGER NOT NULL, grammar TEXT NOT NULL,
  title TEXT NOT NULL, brief TEXT NOT NULL, arch TEXT NOT NULL,
  main_symbol INTEGER NOT NULL, included INTEGER NOT NULL);
CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, norm TEXT NOT NULL, defined INTEGER NOT NULL);
CREATE INDEX names_norm ON names(norm) WHERE defined;
CREATE TABLE symbols(
  id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL, name_id INTEGER NOT NULL, qualified_name TEXT NOT NULL,
  kind TEXT NOT NULL, line INTEGER NOT NULL, end_line INTEGER NOT NULL, offset INTEGER NOT NULL,
  signature TEXT NOT NULL, doc TEXT NOT NULL, template_parameters TEXT NOT NULL, specialisation TEXT NOT NULL,
  guards TEXT NOT NULL, arch TEXT NOT NULL, atom TEXT NOT NULL, member INTEGER NOT NULL,
  declaration_only INTEGER NOT NULL);
CREATE INDEX symbols_name ON symbols(name_id);
CREATE INDEX symbols_file ON symbols(file_id);
CREATE TABLE ptx(operation TEXT NOT NULL, symbol_id INTEGER NOT NULL, PRIMARY KEY(operation, symbol_id)) WITHOUT ROWID;
CREATE INDEX ptx_symbol ON ptx(symbol_id);
CREATE TABLE mentions(
  name_id INTEGER NOT NULL, file_id INTEGER NOT NULL, count INTEGER NOT NULL, line INTEGER NOT NULL,
  PRIMARY KEY(name_id, file_id)) WITHOUT ROWID;
CREATE INDEX mentions_file ON mentions(file_id);
CREATE TABLE sections(
  id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL, title TEXT NOT NULL, line INTEGER NOT NULL,
  end_line INTEGER NOT NULL);
CREATE INDEX sections_file ON sections(file_id);
CREATE TABLE skipped(
  path TEXT PRIMARY KEY, reason TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE includes(file_id INTEGER NOT NULL, target TEXT NOT NULL);
CREATE INDEX includes_file ON includes(file_id);
CREATE TABLE listed(file_id INTEGER NOT NULL, folder TEXT NOT NULL, title TEXT NOT NULL);
CREATE VIRTUAL TABLE symbol_words USING fts5(name, path, signature, doc, remarks, body, tokenize='ascii');
CREATE VIRTUAL TABLE file_words USING fts5(path, title, doc, names, remarks, body, tokenize='ascii');
CREATE VIRTUAL TABLE section_words USING fts5(title, path, body, tokenize='ascii');
CREATE VIRTUAL TABLE symbol_vocabulary USING fts5vocab(symbol_words, row);
CREATE VIRTUAL TABLE file_vocabulary USING fts5vocab(file_words, row);
CREATE TABLE concepts(id INTEGER PRIMARY KEY, does TEXT NOT NULL, symbols TEXT NOT NULL, files TEXT NOT NULL);
CREATE VIRTUAL TABLE concept_words USING fts5(words, names, tokenize='ascii');
CREATE VIRTUAL TABLE concept_vocabulary USING fts5vocab(concept_words, row);
CREATE VIRTUAL TABLE name_grams USING fts5(norm, tokenize='trigram', content='', columnsize=0, detail='none');
"""


def create(path: Path) -> sqlite3.Connection:
    """A new, empty index at `path`, tuned for one bulk load."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA page_size = 4096")
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -32000")
    connection.executescript(_SCHEMA)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return connection


def open_to_write(path: Path) -> sqlite3.Connection:
    """An existing index; a transaction cut off by a kill is rolled back on opening."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """An existing index, never written through this connection."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA cache_size = -16000")
    connection.execute("PRAGMA mmap_size = 134217728")
    return connection
