# SPDX-License-Identifier: Apache-2.0
"""The tables, as an ordered list of migrations: entry N brings a database from version N to N + 1.

An entry that was released is never edited; a change is a new entry.
"""

from __future__ import annotations

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
)
