# SPDX-License-Identifier: Apache-2.0
"""The database file: schema, migration, refusals, and several processes at once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from warplens.store.database import FILE_NAME, MIGRATIONS, data_folder, open_store, transaction
from warplens.store.runs import list_runs
from warplens_tools.errors import InputError


def test_the_environment_moves_the_data_folder(tmp_path: Path) -> None:
    assert data_folder({"WARPLENS_HOME": str(tmp_path)}) == tmp_path
    assert data_folder({}).name == "warplens"


def test_a_new_database_has_the_current_schema_and_writes_ahead(tmp_path: Path) -> None:
    with open_store(tmp_path / "deep" / "folder") as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert list_runs(connection) == []


def test_an_older_database_is_brought_up_and_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path) as connection:
        connection.execute(
            "INSERT INTO decisions (at, path, kernel, rule, accepted) VALUES (0, 'a', 'k', 'r', 1)"
        )
    added = "CREATE TABLE notes (text TEXT); ALTER TABLE decisions ADD COLUMN why TEXT NOT NULL DEFAULT '';"
    monkeypatch.setattr("warplens.store.database.MIGRATIONS", (*MIGRATIONS, added))
    with open_store(tmp_path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS) + 1
        assert tuple(connection.execute("SELECT rule, why FROM decisions").fetchone()) == ("r", "")
        assert connection.execute("SELECT count(*) FROM notes").fetchone()[0] == 0


def test_a_failed_migration_leaves_the_old_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path):
        pass
    monkeypatch.setattr("warplens.store.database.MIGRATIONS", (*MIGRATIONS, "CREATE TABLE a (x); NOT SQL;"))
    with pytest.raises(InputError, match="cannot open"), open_store(tmp_path):
        pass
    monkeypatch.undo()
    with open_store(tmp_path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'a'").fetchone() is None


def test_a_newer_database_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with open_store(tmp_path) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(InputError, match="newer Warplens") as caught, open_store(tmp_path):
        pass
    assert "upgrade" in caught.value.remedy


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all, however long it may be" * 100)
    with pytest.raises(InputError, match="cannot open") as caught, open_store(tmp_path):
        pass
    assert "aside" in caught.value.remedy


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match="cannot use the data folder") as caught,
        open_store(tmp_path / "file"),
    ):
        pass
    assert "WARPLENS_HOME" in caught.value.remedy


def test_an_error_inside_a_transaction_undoes_it(tmp_path: Path) -> None:
    with open_store(tmp_path) as connection:
        with pytest.raises(sqlite3.IntegrityError), transaction(connection):
            connection.execute(
                "INSERT INTO decisions (at, path, kernel, rule, accepted) VALUES (0, 'a', 'k', 'r', 1)"
            )
            connection.execute("INSERT INTO decisions (at) VALUES (0)")
        assert connection.execute("SELECT count(*) FROM decisions").fetchone()[0] == 0


WRITER = """
import sys
from pathlib import Path
from warplens.store.database import open_store
from warplens.store.runs import Target, append_step, start_run
with open_store(Path(sys.argv[1])) as connection:
    run = start_run(connection, Target("/k.cu", sys.argv[2], "h", "w", "mcts", 0), settings="{}")
    for number in range(25):
        append_step(connection, run, "tell", "{}", candidate=str(number))
"""


def test_processes_that_start_at_once_lose_no_step(tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(i)]) for i in range(4)]
    assert [writer.wait(timeout=PATIENCE) for writer in writers] == [0] * 4
    with open_store(tmp_path) as connection:
        counts = connection.execute("SELECT count(*), max(number) FROM steps GROUP BY run").fetchall()
    assert [tuple(row) for row in counts] == [(25, 25)] * 4
