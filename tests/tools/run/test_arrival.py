# SPDX-License-Identifier: Apache-2.0
"""A program waits at the job's gate until whoever runs it has the card, and is not charged for the wait."""

from __future__ import annotations

import sys
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from warplens_tools.errors import CancelledError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.run import Completed
from warplens_tools.process.task import Task
from warplens_tools.run.probe.job import Job
from warplens_tools.run.probe.records import Arrived, Closed, Record, RecordReader
from warplens_tools.run.probe.visit import Command, ProbeRun, _Following, run_with_probe

#: What the probe in a program does with a job, as far as the gate goes.
PROGRAM = """
import os, sys, time
words = dict(line.rstrip().split(" ", 1) for line in open(os.environ["WARPLENS_JOB"]))
def write(record):
    with open(words["result"], "a") as file:
        file.write('{"record": "%s"}\\n' % record)
if "gate" in words:
    write("arrived")
    while not os.path.exists(words["gate"]):
        time.sleep(0.001)
if sys.argv[1] == "hangs":
    with open(words["result"], "a") as file:
        file.write('{"record": "begin", "candidate": "c"}\\n')
    write("arrived")  # another process of the program
    time.sleep(60)
time.sleep(float(sys.argv[1]))
write("closed")
"""


class Run:
    """One run of `PROGRAM`, and what was heard in which order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.heard: list[str] = []

    def arrive(self, seconds: float) -> None:
        self.heard.append("asked")
        time.sleep(seconds)
        self.heard.append("given")

    def __call__(
        self,
        works: float | str,
        timeout: float,
        waits: float | None,
        task: Task | None = None,
        stall: float | None = None,
    ) -> ProbeRun:
        def take(record: Record) -> None:
            self.heard.append(type(record).__name__)

        return run_with_probe(
            Command((sys.executable, "-c", PROGRAM, str(works)), str(self._folder)),
            Job("visit", str(self._folder / "records.jsonl")),
            self._folder / "probe.so",
            timeout=timeout,
            stall=stall,
            task=task or Task(),
            on_record=take,
            on_arrival=None if waits is None else lambda: self.arrive(waits),
        )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_it_goes_on_when_the_card_was_taken(run: Run) -> None:
    done = run(0.0, 30.0, 0.1)
    assert run.heard == ["asked", "given", "Arrived", "Closed"]
    assert done.records == (Arrived(), Closed())
    assert done.completed is not None and done.completed.status == 0


def test_without_a_gate_it_goes_on_at_once(run: Run) -> None:
    run(0.0, 30.0, None)
    assert run.heard == ["Closed"]


def test_the_wait_is_not_its_time(run: Run) -> None:
    done = run(0.0, 4.0, 4.2)
    assert done.completed is not None and done.records[-1] == Closed()


def test_its_time_ends_it(run: Run) -> None:
    started = time.monotonic()
    assert run(60.0, 0.5, 0.0).completed is None
    assert time.monotonic() - started < 30.0


def test_whoever_gives_up_at_the_gate_leaves_no_program(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    token = CancelToken()

    def give_up(_: float) -> None:
        token.cancel()
        raise CancelledError("stopped")

    monkeypatch.setattr(run, "arrive", give_up)
    with pytest.raises(CancelledError):
        run(60.0, 60.0, 0.0, Task(token=token))


def test_an_error_at_the_gate_is_raised_and_leaves_no_program(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: float) -> None:
        raise RuntimeError("no card")

    monkeypatch.setattr(run, "arrive", fail)
    started = time.monotonic()
    with pytest.raises(RuntimeError, match="no card"):
        run(60.0, 60.0, 0.0)
    assert time.monotonic() - started < 30.0


def test_a_candidate_that_hangs_is_ended_though_another_process_arrives(run: Run) -> None:
    done = run("hangs", 60.0, 0.0, stall=0.3)
    assert (done.completed, done.stalled) == (None, "c")


def test_nobody_takes_the_card_for_a_program_that_has_ended(tmp_path: Path) -> None:
    result = tmp_path / "records.jsonl"
    result.write_text('{"record": "arrived"}\n')
    heard: list[str] = []
    following = _Following(
        RecordReader(result), 60.0, None, None, tmp_path / "gate", lambda: heard.append("asked")
    )
    ended: Future[Completed | None] = Future()
    ended.set_result(None)
    following.until_end(ended, CancelToken())
    assert heard == [] and not (tmp_path / "gate").exists()
