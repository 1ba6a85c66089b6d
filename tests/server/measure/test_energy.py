# SPDX-License-Identifier: Apache-2.0
"""Energy by a counter that behaves as NVML's does: it ticks, looks at a part of the time, and counts the idle card."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from tests.server.agent.doubles import CODE, ComputedJudge, problem

from warplens.agent.energy_search import LIGHTER, around, as_fast_as, by_energy, for_time
from warplens.agent.policies import GreedySearch
from warplens.agent.search_loop import optimize
from warplens.agent.search_settings import Objective
from warplens.agent.versions import best_first
from warplens.measure.energy import EnergyGain, EnergyMeter, EnergySettings, Sample, gain
from warplens.measure.judge import Confirmation, ProgramGain
from warplens.measure.verdict import Candidate, Interval
from warplens.present.proof import proof_words
from warplens.store.database import open_store
from warplens_tools.errors import MissingToolError, ToolFailedError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText

IDLE = 70.0


class Card:
    """A card on a clock of its own. Every 100 ms its sensor looks for 25 ms and takes that for the whole period."""

    def __init__(self, *, period: float = 0.1, looks: float = 0.25, seed: int = 1) -> None:
        self.now = 0.0
        self.period, self.looks = period, looks
        self._draw = random.Random(seed)
        self._counted = 0.0
        self._tick = 0.0
        #: Joules within this period's look, and its length so far.
        self._seen, self._for = 0.0, 0.0
        self._look = self._draw.uniform(0, period * (1 - looks))

    def sleep(self, seconds: float) -> None:
        self.work(seconds, IDLE)

    def work(self, seconds: float, watts: float) -> None:
        end = self.now + seconds
        while self.now < end - 1e-12:
            step = min(end, self._tick + self.period) - self.now
            low, high = self._tick + self._look, self._tick + self._look + self.period * self.looks
            inside = max(0.0, min(self.now + step, high) - max(self.now, low))
            self._seen += inside * watts * self._draw.gauss(1.0, 0.01)
            self._for += inside
            self.now += step
            if self.now >= self._tick + self.period - 1e-12:
                self._counted += self._seen / self._for * self.period
                self._tick += self.period
                self._seen = self._for = 0.0
                self._look = self._draw.uniform(0, self.period * (1 - self.looks))

    def read(self) -> float | None:
        return round(self._counted, 3)

    def meter(self, **settings: float) -> EnergyMeter:
        chosen = EnergySettings(**settings)  # type: ignore[arg-type]
        return EnergyMeter("GPU-0", chosen, read=self.read, clock=lambda: self.now, sleep=self.sleep)


def program(card: Card, seconds: float, watts: float, *, idle: float = 0.05) -> Callable[[], None]:
    """A run: some of it is the host's, while the card waits."""

    def run() -> None:
        card.work(idle, IDLE)
        card.work(seconds, watts)

    return run


@pytest.mark.parametrize("seed", range(5))
def test_extra_work_shows_and_repeats_within_three_percent(seed: int) -> None:
    card = Card(seed=seed)
    found = card.meter().compare(program(card, 0.6, 450.0), program(card, 0.5, 450.0))
    assert found.baseline_j.median == pytest.approx(0.6 * (450 - IDLE), rel=0.03)
    assert found.candidate_j.median == pytest.approx(0.5 * (450 - IDLE), rel=0.03)
    assert (
        found.ratio.median == pytest.approx(1.2, rel=0.04)
        and found.ratio.low > 1.05
        and found.idle_w == pytest.approx(IDLE, rel=0.03)
        and found.busy_w > 300
    )
    assert "less (95 %" in found.words() and "70 W of the idle card" in found.words()


def test_equal_versions_are_not_told_apart() -> None:
    outside = 0
    for seed in range(20):
        card = Card(seed=seed)
        found = card.meter().compare(program(card, 0.5, 400.0), program(card, 0.5, 400.0))
        outside += not found.ratio.low <= 1.0 <= found.ratio.high
        assert found.ratio.median == pytest.approx(1.0, rel=0.05)
    # a 95 % interval misses now and then
    assert outside <= 4


def test_less_power_at_equal_time_is_less_energy() -> None:
    card = Card()
    found = card.meter().compare(program(card, 0.5, 500.0), program(card, 0.5, 450.0))
    assert (
        found.ratio.median == pytest.approx((500 - IDLE) / (450 - IDLE), rel=0.03) and found.ratio.low > 1.05
    )


def test_short_programs_are_repeated_until_the_sensor_sees_them() -> None:
    card = Card()
    runs = [0]
    once = program(card, 0.02, 400.0, idle=0.0)

    def counted() -> None:
        runs[0] += 1
        once()

    found = card.meter(samples=3).compare(counted, program(card, 0.02, 400.0, idle=0.0))
    assert runs[0] >= 3 * 200 and found.seconds > 6 * 4.0
    assert found.baseline_j.median == pytest.approx(0.02 * (400 - IDLE), rel=0.05)


def test_what_cannot_be_measured_is_said() -> None:
    card = Card()
    with pytest.raises(ToolFailedError, match="no more than the idle card"):
        card.meter(samples=3).compare(program(card, 0.0, 0.0), program(card, 0.0, 0.0))
    for read, said in ((lambda: None, "does not count energy"), (lambda: 1.0, "stands still")):
        meter = EnergyMeter("GPU-0", read=read, clock=lambda: card.now, sleep=card.sleep)
        with pytest.raises(MissingToolError, match=said):
            meter.compare(program(card, 0.1, 100.0), program(card, 0.1, 100.0))


def test_a_drifting_idle_power_widens_the_interval() -> None:
    samples = [Sample(500.0 + n, 1.0, 1) for n in range(5)]
    calm, drifting = gain(samples, samples, [70.0] * 6), gain(samples, samples, [50.0, 90.0] * 3)
    assert drifting.baseline_j.high - drifting.baseline_j.low > calm.baseline_j.high - calm.baseline_j.low


class Frugal(ComputedJudge):
    """Each version that is confirmed takes less energy than the one before."""

    def confirm(self, candidate: Candidate, *, task: Task = UNATTENDED) -> Confirmation:
        found = super().confirm(candidate, task=task)
        ratio = Interval(1.0 + 0.1 * len(self.confirmed), 1.0, 2.0)
        joules = Interval(10.0, 9.0, 11.0)
        energy = EnergyGain(joules, joules, ratio, 70.0, 400.0, 5, 40.0)
        seconds = Interval(1.0, 1.0, 1.0)
        return msgspec.structs.replace(found, program=ProgramGain(seconds, seconds, seconds, energy))


@pytest.mark.parametrize(("objective", "confirmed"), [("time", 1), ("energy", 3), ("lexicographic", None)])
def test_the_objective_chooses_among_what_holds(
    objective: Objective, confirmed: int | None, tmp_path: Path
) -> None:
    judge = Frugal(SourceText(CODE))
    with open_store(tmp_path) as store:
        result = optimize(problem(objective=objective), judge, store)
    assert result.proof is not None and result.proof.program is not None
    energy = result.proof.program.energy
    assert energy is not None and result.outcome == "faster"
    # the last that is confirmed takes least
    assert energy.ratio.median == pytest.approx(1.0 + 0.1 * len(judge.confirmed))
    assert result.proof.verdict.candidate == judge.confirmed[-1]
    if confirmed is not None:
        assert len(judge.confirmed) == confirmed
    speeds = {t.id: t.speedup.median for t in result.tried if t.speedup is not None}
    if objective == "lexicographic":
        assert all(speeds[c] >= 0.99 * speeds[judge.confirmed[0]] for c in judge.confirmed)
    assert any("Energy of a run" in fact for fact in proof_words(result, result.proof).facts)


def test_what_is_tried_for_energy_is_one_step_from_the_fastest() -> None:
    given = problem(objective="lexicographic")
    judge = ComputedJudge(given.text)
    search = GreedySearch(given.text, path=given.path, kernel="scale", space=given.space("scale"))
    for verdict in judge.judge([ask.candidate for ask in search.ask(8)]):
        search.tell(verdict.candidate, verdict)
    (fastest, *_) = best_first(search.versions.told())
    asks = around(search, fastest, 6, UNATTENDED)
    assert 0 < len(asks) <= 6 and {a.candidate.parent for a in asks} == {fastest.ask.candidate.id}
    assert len({a.move.rule for a in asks}) > 1
    again = around(search, fastest, 100, UNATTENDED)
    assert not {a.candidate.text_hash for a in asks} & {a.candidate.text_hash for a in again}
    assert as_fast_as(fastest, fastest) and not as_fast_as(search.versions.root, fastest)


def test_versions_that_execute_less_are_measured_first_of_those_as_fast() -> None:
    assert {"constant-power", "float-literals"} <= LIGHTER and "launch-bounds" not in LIGHTER

    def node(speedup: float, rule: str) -> SimpleNamespace:
        return SimpleNamespace(speedup=speedup, ask=SimpleNamespace(move=SimpleNamespace(rule=rule)))

    fastest, equal, light, slower = (
        node(1.5, "launch-bounds"),
        node(1.499, "launch-bounds"),
        node(1.49, "constant-power"),
        node(1.3, "float-literals"),
    )
    assert by_energy([fastest, equal, light, slower]) == [fastest, light, equal, slower]  # type: ignore[list-item]
    assert by_energy([]) == []


def test_a_part_of_the_budget_is_for_energy(tmp_path: Path) -> None:
    judge = Frugal(SourceText(CODE))
    with open_store(tmp_path) as store:
        optimize(problem(objective="lexicographic"), judge, store)
    spent = problem().budget.candidates
    assert for_time(problem().budget) < len(judge.judged) <= spent


def test_versions_are_ranked_by_one_sample_each() -> None:
    card = Card(seed=3)
    meter = EnergyMeter("", read=card.read, clock=lambda: card.now, sleep=card.sleep)
    versions = [lambda w=w: card.work(0.5, w) for w in (500.0, 400.0, 450.0)]
    found = meter.joules(versions)
    assert sorted(range(3), key=found.__getitem__) == [1, 2, 0]
    assert found == pytest.approx([250.0, 200.0, 225.0], rel=0.05)
