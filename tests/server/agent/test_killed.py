# SPDX-License-Identifier: Apache-2.0
"""`kill -9` at any moment: what is finished is never paid for again, what was written stays, nobody is left behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest
from tests.patience import PATIENCE

from warplens.agent.versions import Ask
from warplens.store.database import open_store
from warplens.store.runs import Step, list_runs, read_steps

ROOT = Path(__file__).resolve().parents[3]
MOMENTS = 20
#: Forks a search for each folder that it is told of, as most of a start is imports, and says how it ended. Each verdict
#: takes a process of its own, as the real judge's do, so that there is somebody to leave behind.
SEARCHES = """
import os, sys
from pathlib import Path
from tests.server.agent.doubles import CODE, ComputedJudge, problem
from warplens.agent.search_loop import optimize
from warplens.agent.search_settings import Budget
from warplens.store.database import open_store
from warplens_tools.process.run import run
from warplens_tools.text import SourceText

class Judge(ComputedJudge):
    def __init__(self, folder):
        super().__init__(SourceText(CODE))
        self.folder = folder

    def _verdict(self, candidate):
        print(candidate.text_hash, flush=True)
        run(["sh", "-c", "sleep 0.04; sleep 0.04; : " + self.folder])
        return super()._verdict(candidate)

for line in sys.stdin:
    folder = line.strip()
    pid = os.fork()
    if pid == 0:
        print("begun", os.getpid(), flush=True)
        with open_store(Path(folder)) as store:
            budget = Budget(candidates=40, seconds=300, batch=4)
            optimize(problem(resume=True, budget=budget), Judge(folder), store)
        sys.exit()
    print("ended", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Searches:
    """The process that forks them, one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SEARCHES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def __enter__(self) -> Searches:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def killed(self, folder: Path, after: float) -> list[str]:
        """What a search judged that was killed so many seconds after it began to judge: what is killed while it
        starts has done nothing."""
        pid = self._start(folder)
        judged = [self._line()]
        time.sleep(after)
        if not judged[0].startswith("ended"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        while not judged[-1].startswith("ended"):
            judged.append(self._line())
        return judged[:-1]

    def whole(self, folder: Path) -> str:
        """How a search ended that nobody stopped."""
        self._start(folder)
        while not (line := self._line()).startswith("ended"):
            pass
        return line

    def _start(self, folder: Path) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{folder}\n")
        return int(self._line().removeprefix("begun "))

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process that forks has ended"
        return line.strip()


def journal(folder: Path) -> list[Step]:
    with open_store(folder) as store:
        runs = list_runs(store)
        assert len(runs) <= 1, "a killed run is gone on with"
        return read_steps(store, runs[0].id) if runs else []


def asked(steps: list[Step]) -> dict[str, str]:
    """Texts' hashes by candidate."""
    asks = (msgspec.json.decode(s.payload, type=Ask) for s in steps if s.kind == "ask")
    return {ask.candidate.id: ask.candidate.text_hash for ask in asks}


def left_behind(folder: Path) -> list[list[str]]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if any(f": {folder}" in word for word in command):
            found.append(command)
    return found


@pytest.mark.slow
@pytest.mark.thorough
def test_kills_at_random_moments_lose_nothing_repeat_nothing_and_leave_nobody(tmp_path: Path) -> None:
    draw, steps = random.Random(16), list[Step]()
    with Searches() as searches:
        for _ in range(MOMENTS):
            judged = searches.killed(tmp_path, draw.uniform(0.0, 0.25))
            told = {s.candidate for s in steps if s.kind == "tell"}
            texts = {text for name, text in asked(steps).items() if name in told}
            assert not texts & set(judged), "a finished candidate was judged again"
            after = journal(tmp_path)
            assert after[: len(steps)] == steps, "the journal only grows"
            steps = after
        assert searches.whole(tmp_path) == "ended 0"
        assert searches.whole(tmp_path / "whole") == "ended 0"
    steps = journal(tmp_path)
    told_once = [s.candidate for s in steps if s.kind == "tell"]
    assert len(told_once) == len(set(told_once)) == 40
    deadline = time.monotonic() + PATIENCE
    while left_behind(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_behind(tmp_path) == []
    assert list(asked(journal(tmp_path / "whole")).values()) == list(asked(steps).values()), (
        "it went on alike"
    )
