# SPDX-License-Identifier: Apache-2.0
"""`kill -9` at any moment: what is finished is never paid for again, what was written stays, nobody is left behind."""

from __future__ import annotations

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

from warplens.agent.versions import Ask
from warplens.store.database import open_store
from warplens.store.runs import Step, list_runs, read_steps

ROOT = Path(__file__).resolve().parents[3]
MOMENTS = 20
#: Each verdict takes a process of its own, as the real judge's do, so that there is somebody to leave behind.
SEARCH = """
import sys
from pathlib import Path
from tests.server.agent.doubles import CODE, ComputedJudge, problem
from warplens.agent.search_loop import optimize
from warplens.agent.search_settings import Budget
from warplens.store.database import open_store
from warplens_tools.process.run import run
from warplens_tools.text import SourceText

class Judge(ComputedJudge):
    def _verdict(self, candidate):
        print(candidate.text_hash, flush=True)
        run(["sh", "-c", "sleep 0.04; sleep 0.04; : " + sys.argv[1]])
        return super()._verdict(candidate)

with open_store(Path(sys.argv[1])) as store:
    optimize(problem(resume=True, budget=Budget(candidates=40, seconds=300, batch=4)), Judge(SourceText(CODE)), store)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SEARCH, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


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
def test_kills_at_random_moments_lose_nothing_repeat_nothing_and_leave_nobody(tmp_path: Path) -> None:
    draw, steps = random.Random(16), list[Step]()
    for _ in range(MOMENTS):
        process = start(tmp_path)
        assert process.stdout is not None
        first = process.stdout.readline()  # what is killed while it starts has done nothing
        time.sleep(draw.uniform(0.0, 0.25))
        process.send_signal(signal.SIGKILL)
        judged = [first.strip(), *process.stdout.read().split()]
        process.wait()
        process.stdout.close()
        told = {s.candidate for s in steps if s.kind == "tell"}
        texts = {text for name, text in asked(steps).items() if name in told}
        assert not texts & set(judged), "a finished candidate was judged again"
        after = journal(tmp_path)
        assert after[: len(steps)] == steps, "the journal only grows"
        steps = after
    process = start(tmp_path)
    assert process.stdout is not None
    process.stdout.read()
    assert process.wait() == 0
    process.stdout.close()
    steps = journal(tmp_path)
    told_once = [s.candidate for s in steps if s.kind == "tell"]
    assert len(told_once) == len(set(told_once)) == 40
    deadline = time.monotonic() + 10
    while left_behind(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_behind(tmp_path) == []
    whole = start(tmp_path / "whole")
    assert whole.stdout is not None
    whole.stdout.read()
    assert whole.wait() == 0
    whole.stdout.close()
    assert list(asked(journal(tmp_path / "whole")).values()) == list(asked(steps).values()), (
        "it went on alike"
    )
