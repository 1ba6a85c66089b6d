# SPDX-License-Identifier: Apache-2.0
"""Runs and their journal."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.patience import PATIENCE

from warplens.store.database import open_store
from warplens.store.runs import (
    Target,
    adopt_run,
    append_step,
    find_run,
    finish_run,
    list_runs,
    read_steps,
    start_run,
)

TARGET = Target("/k.cu", "scale", "hash", "workload", "mcts", 7)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with open_store(tmp_path) as connection:
        yield connection


def test_a_journal_is_read_in_order_and_runs_do_not_mix(store: sqlite3.Connection) -> None:
    first = start_run(store, TARGET, settings="{}", gpu="NVIDIA H200", driver="580")
    second = start_run(store, TARGET, settings="{}")
    append_step(store, first, "ask", '{"a":1}', candidate="c1")
    append_step(store, second, "ask", "{}", candidate="other")
    append_step(store, first, "tell", '{"b":2}', candidate="c1")
    steps = read_steps(store, first)
    assert [(s.number, s.kind, s.candidate, s.payload) for s in steps] == [
        (1, "ask", "c1", '{"a":1}'),
        (2, "tell", "c1", '{"b":2}'),
    ]


@pytest.mark.parametrize("statement", ["UPDATE steps SET payload = 'x'", "DELETE FROM steps"])
def test_a_journal_can_only_grow(store: sqlite3.Connection, statement: str) -> None:
    append_step(store, start_run(store, TARGET, settings="{}"), "ask", "{}", candidate="c")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        store.execute(statement)


def test_a_finished_run_says_how_it_ended(store: sqlite3.Connection) -> None:
    run = start_run(store, TARGET, settings='{"k":1}', gpu="NVIDIA H200", driver="580")
    finish_run(store, run, outcome="faster", speedup=1.5)
    (listed,) = list_runs(store)
    assert (listed.outcome, listed.speedup, listed.gpu, listed.target) == (
        "faster",
        1.5,
        "NVIDIA H200",
        TARGET,
    )
    assert listed.finished_at is not None and listed.finished_at >= listed.started_at


def test_only_a_run_of_the_same_target_is_found(store: sqlite3.Connection) -> None:
    run = start_run(store, TARGET, settings="{}")
    found = find_run(store, TARGET)
    assert found is not None and found.id == run
    assert find_run(store, Target("/k.cu", "scale", "edited", "workload", "mcts", 7)) is None
    assert find_run(store, Target("/k.cu", "scale", "hash", "workload", "random", 7)) is None


HOLDER = """
import sys, time
from pathlib import Path
from warplens.store.database import open_store
from warplens.store.runs import Target, append_step, start_run
with open_store(Path(sys.argv[1])) as connection:
    run = start_run(connection, Target("/k.cu", "scale", "hash", "workload", "mcts", 7), settings="{}")
    told = 0
    while True:
        append_step(connection, run, "ask", "{}", candidate=str(told))
        append_step(connection, run, "tell", "{}", candidate=str(told))
        print(told, flush=True)
        told += 1
        time.sleep(0.002)
"""


def test_a_run_that_a_living_process_works_on_is_left_alone(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        holder.stdout.readline()
        with open_store(tmp_path) as connection:
            assert find_run(connection, TARGET) is None
            assert not adopt_run(connection, 1)
            os.kill(holder.pid, signal.SIGKILL)
            holder.wait(timeout=PATIENCE)
            found = find_run(connection, TARGET)
            assert found is not None and adopt_run(connection, found.id)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acknowledged=st.integers(1, 30))
def test_what_was_told_before_a_kill_is_never_lost(
    tmp_path_factory: pytest.TempPathFactory, acknowledged: int
) -> None:
    folder = tmp_path_factory.mktemp("killed")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    try:
        for _ in range(acknowledged):
            holder.stdout.readline()
        os.kill(holder.pid, signal.SIGKILL)
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with open_store(folder) as connection:
        steps = read_steps(connection, 1)
        told = [step.candidate for step in steps if step.kind == "tell"]
        assert told[:acknowledged] == [str(n) for n in range(acknowledged)]
        assert [step.number for step in steps] == list(range(1, len(steps) + 1))
