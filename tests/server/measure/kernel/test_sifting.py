# SPDX-License-Identifier: Apache-2.0
"""Which candidates are looked at in full, and what that takes of a card's time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from warplens.measure.build.candidates import Built
from warplens.measure.costs import LEARN
from warplens.measure.kernel.sifting import bar_of, visited
from warplens.measure.kernel.visits import IN_FULL, Look, VisitResult
from warplens.measure.verdict import Candidate
from warplens_tools.process.task import UNATTENDED
from warplens_tools.run.probe.job import JobCandidate
from warplens_tools.run.probe.records import BaselineRecord, Opened, ResultRecord, TimingRecord

#: Seconds of a visit's start and of learning for a brief look and one in full; of a brief look at one candidate and of
#: one in full.
START, BRIEFLY, LEARNED, BRIEF, FULL = 0.5, 0.5, 2.0, 0.2, 6.0
BASELINE_NS = 1000.0


class TimedVisits:
    """Visits of candidates whose speedup is known, as the probe makes them; `seconds` is what the card has spent."""

    def __init__(
        self, speedups: dict[str, float], *, wrong: Sequence[str] = (), may_sift: bool = True
    ) -> None:
        self._speedups, self._wrong = speedups, wrong
        self.may_sift = may_sift
        self.seconds = 0.0
        self.looks: list[tuple[Look, list[str]]] = []
        self.in_full: list[str] = []

    def judge(
        self,
        candidates: Sequence[JobCandidate],
        on_heard: Callable[[VisitResult], None],
        task: object,
        turn: object,
        look: Look,
    ) -> None:
        del task, turn
        self.looks.append((look, [c.id for c in candidates]))
        self.seconds += START + (BRIEFLY if look.sifts else LEARNED)
        bar = look.bar
        for one in candidates:
            speedup = self._speedups[one.id]
            ahead = not bar or speedup > bar
            self.seconds += BRIEF if bar else 0.0
            if not ahead or look.sifts:
                on_heard(self._heard(one.id, "right" if ahead else "provisional", BRIEF, look))
                continue
            self.in_full.append(one.id)
            self.seconds += FULL
            right = one.id not in self._wrong
            bar = max(bar, speedup) if bar and right else bar
            on_heard(self._heard(one.id, "right" if right else "wrong", FULL, look))

    def _heard(self, name: str, state: Any, seconds: float, look: Look) -> VisitResult:
        times = (BASELINE_NS / self._speedups[name],) * 5
        timing = TimingRecord("program", (BASELINE_NS,) * 5, times, (BASELINE_NS,) * 5, 1)
        result = ResultRecord(name, state, "", timings=(timing,), right_seconds=seconds)
        baseline = BaselineRecord(("own",), (), 4, 0, "CUPTI activity", LEARNED, 0.1)
        return VisitResult(result, baseline, Opened(1, (), 0.0), shared={LEARN: 0.1}, bar=look.bar)


def built(name: str, bar: float) -> Built:
    return cast(
        Built,
        SimpleNamespace(candidate=Candidate(name, "/k.cu", "k", (), bar=bar), job=SimpleNamespace(id=name)),
    )


def seen(visits: TimedVisits, bars: dict[str, float]) -> dict[str, VisitResult]:
    heard: dict[str, VisitResult] = {}

    def take(one: VisitResult) -> None:
        assert one.result.candidate not in heard
        heard[one.result.candidate] = one

    visited(cast(Any, visits), [built(*pair) for pair in bars.items()], take, UNATTENDED, cast(Any, None))
    return heard


def test_only_what_beats_the_best_is_looked_at_in_full_and_the_fastest_first() -> None:
    visits = TimedVisits({"a": 0.5, "b": 1.3, "c": 2.0, "d": 1.6, "e": 1.0})
    heard = seen(visits, dict.fromkeys("abcde", 1.4))
    assert visits.looks == [(Look(1.4, sifts=True), list("abcde")), (Look(1.4, at_once=True), ["c", "d"])]
    assert visits.in_full == ["c"], "what comes after it has to beat it, too"
    assert {name: one.result.state for name, one in heard.items()} == {
        "a": "provisional", "b": "provisional", "c": "right", "d": "provisional", "e": "provisional",
    }  # fmt: skip


def test_where_the_fastest_is_wrong_the_next_is_looked_at() -> None:
    visits = TimedVisits({"a": 3.0, "b": 2.0, "c": 1.5}, wrong=["a"])
    heard = seen(visits, dict.fromkeys("abc", 1.0))
    assert visits.in_full == ["a", "b"]
    assert {name: one.result.state for name, one in heard.items()} == {
        "a": "wrong",
        "b": "right",
        "c": "provisional",
    }


def test_what_both_looks_have_cost_is_in_the_result() -> None:
    heard = seen(TimedVisits({"a": 3.0, "b": 0.5}), dict.fromkeys("ab", 1.0))
    assert heard["a"].result.right_seconds == pytest.approx(BRIEF + FULL)
    assert heard["a"].shared == {LEARN: pytest.approx(0.2)}
    assert heard["b"].result.right_seconds == pytest.approx(BRIEF)


def test_without_a_bar_or_beside_a_control_all_are_looked_at_in_full() -> None:
    for bars, may_sift in (({"a": 1.0, "b": 0.0}, True), ({"a": 1.0, "b": 1.0}, False)):
        visits = TimedVisits({"a": 0.5, "b": 2.0}, may_sift=may_sift)
        seen(visits, bars)
        assert visits.looks == [(IN_FULL, ["a", "b"])] and visits.in_full == ["a", "b"]


def test_the_latest_bar_holds_for_all() -> None:
    assert bar_of([built("a", 1.2), built("b", 1.5)]) == 1.5
    assert bar_of([built("a", 0.0), built("b", 1.5)]) == bar_of([]) == 0.0


def test_a_minute_judges_several_times_as_many_where_few_are_better_than_the_best() -> None:
    # of 200 candidates of a search, as wide as real ones are, one in ten beats what was best before it
    speedups = {f"c{i}": 1.0 + 0.01 * i if i % 10 == 0 else 0.4 + 0.003 * i for i in range(200)}

    def minute(*, held: bool) -> int:
        visits, best, judged = TimedVisits(speedups), 1.0, 0
        names = list(speedups)
        for start in range(0, len(names), 8):
            chunk = names[start : start + 8]
            seen(visits, dict.fromkeys(chunk, best if held else 0.0))
            if visits.seconds > 60.0:
                break
            judged += len(chunk)
            best = max(best, *(speedups[name] for name in chunk))
        return judged

    assert minute(held=True) >= 5 * minute(held=False)
