# SPDX-License-Identifier: Apache-2.0
"""A judge for worker processes that sleeps instead of compiling and measuring, and writes down what it did."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.server.agent.bench import timed
from tests.server.agent.doubles import ComputedJudge

from warplens.measure.judge import Baseline, Confirmation
from warplens.measure.verdict import Candidate, Conditions, Verdict
from warplens_tools.errors import InputError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.text import SourceText


class FakeJudge:
    """The payload says how long it compiles and measures, and which candidates end their worker."""

    def __init__(self, payload: str) -> None:
        self.said = json.loads(payload)
        self.folder = Path(self.said["folder"])
        self.card = os.environ.get("CUDA_VISIBLE_DEVICES", "")

    def __enter__(self) -> FakeJudge:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def log(self, *words: str) -> None:
        with (self.folder / "log").open("a") as file:
            file.write(" ".join((self.card, *words)) + "\n")

    def expect(self, candidates: Sequence[Candidate]) -> None:
        self.log("expects", ",".join(candidate.id for candidate in candidates))

    def baseline(self, *, task: Task = UNATTENDED) -> Baseline:
        if self.said.get("fails"):
            raise InputError("the program itself exits with 1", remedy="make it succeed")
        task.say("measuring a baseline")
        if "baseline" in self.said:
            self.log("baseline")
            self.wait(self.said["baseline"], task)
            self.log("measured")
        return ComputedJudge(SourceText("")).baseline()

    def judge(
        self,
        candidates: Sequence[Candidate],
        *,
        task: Task = UNATTENDED,
        on_verdict: Callable[[Verdict], None] | None = None,
    ) -> tuple[Verdict, ...]:
        # each by itself, or as many at once as there are
        self.wait(self.said.get("compile", 0.0) * len(candidates) + self.said.get("build", 0.0), task)
        verdicts = []
        with gpu_lock(self.card, "a test", task=task):
            self.wait(self.said.get("visit", 0.0), task)
            for candidate in candidates:
                self.die(candidate)
                self.wait(self.said.get("measure", 0.0), task)
                self.log("judged", candidate.id)
                conditions = Conditions("a test double", self.card, "0", "0")
                verdict = timed(candidate.id, 1.0 + int(candidate.id[1:].split(".")[0]) / 100)
                verdicts.append(
                    Verdict(verdict.candidate, verdict.state, "", verdict.timings, conditions=conditions)
                )
                if on_verdict is not None:
                    on_verdict(verdicts[-1])
        return tuple(verdicts)

    def confirm(self, candidate: Candidate, *, task: Task = UNATTENDED) -> Confirmation:
        del task
        self.die(candidate)
        self.log("confirmed", candidate.id)
        return Confirmation(timed(candidate.id, 1.5))

    def confirmation_seconds(self) -> float:
        return 60.0

    def wait(self, seconds: float, task: Task) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            task.check()
            time.sleep(0.01)

    def die(self, candidate: Candidate) -> None:
        """End this process, once or each time."""
        marker = self.folder / f"died-{candidate.id}"
        if candidate.title == "kills" or (candidate.title == "kills once" and not marker.exists()):
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def judges(payload: str) -> FakeJudge:
    return FakeJudge(payload)
