# SPDX-License-Identifier: Apache-2.0
"""Time limits hold, and what was told until then stands."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.server.agent.doubles import CODE, ComputedJudge, problem

from warplens.agent.judging import scarce
from warplens.agent.priors import Cause
from warplens.agent.problem import Learned
from warplens.agent.result import OptimizeResult
from warplens.agent.search_loop import optimize
from warplens.agent.search_settings import Budget
from warplens.measure.bound import confirmation_about, confirmation_seconds
from warplens.measure.judge import Baseline, Confirmation
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import Candidate, Verdict
from warplens.store.database import open_store
from warplens_tools.errors import TimeLimitError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText


def wait(task: Task, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        task.check()
        time.sleep(0.005)


class SlowJudge(ComputedJudge):
    """Takes its time, and listens."""

    baseline_seconds = candidate_seconds = confirm_seconds = 0.0
    bound = 60.0

    def baseline(self, *, task: Task = UNATTENDED) -> Baseline:
        wait(task, self.baseline_seconds)
        return super().baseline(task=task)

    def judge(
        self,
        candidates: Sequence[Candidate],
        *,
        task: Task = UNATTENDED,
        on_verdict: Callable[[Verdict], None] | None = None,
    ) -> tuple[Verdict, ...]:
        told: list[Verdict] = []
        for candidate in candidates:
            wait(task, self.candidate_seconds)
            told += super().judge([candidate], task=task, on_verdict=on_verdict)
        return tuple(told)

    def confirm(self, candidate: Candidate, *, task: Task = UNATTENDED) -> Confirmation:
        wait(task, self.confirm_seconds)
        return super().confirm(candidate, task=task)

    def confirmation_seconds(self) -> float:
        return self.bound


def run(
    tmp_path: Path,
    judge: SlowJudge,
    seconds: float,
    said: list[str] | None = None,
    candidates: int = 500,
    **more: object,
) -> OptimizeResult:
    wanted = problem(budget=Budget(candidates=candidates, seconds=seconds, batch=8), **more)  # type: ignore[arg-type]
    with open_store(tmp_path) as store:
        return optimize(
            wanted,
            judge,
            store,
            task=Task(lambda words, _: said.append(words) if said is not None else None),
        )


def test_the_seconds_hold_in_the_middle_of_a_batch_and_verdicts_stand(tmp_path: Path) -> None:
    judge = SlowJudge(SourceText(CODE))
    judge.candidate_seconds = 0.6
    started = time.monotonic()
    result = run(tmp_path, judge, 3.0)
    # all of them would take five minutes
    assert time.monotonic() - started < 60
    assert result.spent is not None and result.spent.stopped == "time"
    assert 1 <= len(result.tried) <= 5
    assert result.outcome in ("faster", "nothing")


def test_a_baseline_that_takes_too_long_is_said_so(tmp_path: Path) -> None:
    judge = SlowJudge(SourceText(CODE))
    judge.baseline_seconds = 300
    with pytest.raises(TimeLimitError, match=r"0\.2 s were over before the baseline"):
        run(tmp_path, judge, 0.2)


def test_time_spent_before_the_search_counts(tmp_path: Path) -> None:
    with pytest.raises(TimeLimitError):
        judge = SlowJudge(SourceText(CODE))
        judge.baseline_seconds = 0.5
        run(tmp_path, judge, 5.0, started=time.monotonic() - 4.9)


def test_no_verdict_in_time_is_no_lack_of_ideas(tmp_path: Path) -> None:
    judge = SlowJudge(SourceText(CODE))
    judge.candidate_seconds = 300
    result = run(tmp_path, judge, 0.3)
    assert result.reason == "the time was over before a candidate was judged"


def test_a_confirmation_says_its_bound_first_and_keeps_it(tmp_path: Path) -> None:
    judge, said = SlowJudge(SourceText(CODE)), list[str]()
    judge.confirm_seconds, judge.bound = 300, 0.2
    started = time.monotonic()
    # one batch ends the search, not the seconds: a busy machine may need some before anything is confirmed
    result = run(tmp_path, judge, 250.0, said, candidates=8)
    assert time.monotonic() - started < 100
    assert result.outcome == "nothing"
    assert any(words.startswith("confirming, which takes at most 0 s: ") for words in said)


def test_a_confirmation_says_how_long_it_takes_as_a_rule(tmp_path: Path) -> None:
    class Estimating(SlowJudge):
        bound = 500.0

        def confirmation_about(self) -> float:
            return 36.4

    said = list[str]()
    assert run(tmp_path, Estimating(SourceText(CODE)), 2.0, said).outcome == "faster"
    assert any(words.startswith("confirming, which takes about 36 s: ") for words in said)


def test_what_a_confirmation_takes_as_a_rule_is_what_it_took() -> None:
    settings = MeasureSettings()
    # programs of the suite, of 0.5 s and 4 s to build, took 25 to 31 s
    assert 25 < confirmation_about(0.5, 4.0, 0, settings) < 40
    long, shapes = confirmation_about(5.0, 4.0, 0, settings), confirmation_about(0.5, 4.0, 3, settings)
    assert (
        confirmation_about(0.5, 4.0, 0, settings) + 9
        < shapes
        < long
        < confirmation_seconds(5.0, 4.0, settings)
    )


def test_seconds_are_scarcer_than_candidates_by_the_pace_so_far() -> None:
    ten_ago = time.monotonic() - 10.0
    # two a second: twenty in the ten seconds that are left
    assert scarce(20, ten_ago, 10.0, 30) and not scarce(20, ten_ago, 10.0, 10)
    assert not scarce(20, ten_ago, math.inf, 10**6)


def test_before_the_first_verdict_seconds_are_scarce_where_no_pace_would_do() -> None:
    now = time.monotonic()
    assert scarce(0, now, 60.0, 200) and not scarce(0, now, 300.0, 60) and not scarce(0, now, math.inf, 10**6)


def test_the_bound_grows_with_the_program() -> None:
    settings = MeasureSettings()
    short, long = (confirmation_seconds(seconds, 4.0, settings) for seconds in (0.5, 5.0))
    assert 60 < short < 600 < long


def test_counters_are_read_once_the_first_verdicts_are_there(tmp_path: Path) -> None:
    judge, asked = SlowJudge(SourceText(CODE)), list[int]()

    def learn(kernel: str, limit: Task) -> Learned:
        assert kernel == "scale" and not limit.token.cancelled
        asked.append(len(judge.judged))
        return Learned((Cause("WL1", "occupancy-block-size", "scale", "high"),), {"dram": 0.1}, 1.5)

    assert run(tmp_path, judge, 120.0, learn=learn).outcome == "faster"
    assert len(asked) == 1 and 1 <= asked[0] <= 8


def test_counters_are_not_read_where_they_would_take_the_time_of_the_candidates(tmp_path: Path) -> None:
    judge = SlowJudge(SourceText(CODE))

    def learn(_kernel: str, _limit: Task) -> Learned:
        raise AssertionError("counters were read")

    assert run(tmp_path, judge, 10.0, learn=learn).outcome == "faster"
