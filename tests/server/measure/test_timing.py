# SPDX-License-Identifier: Apache-2.0
"""Faster, slower or the same: on made-up durations whose truth is known."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.timing import (
    Change,
    bootstrap,
    change,
    measurable,
    noise_floor,
    overall,
    ratio,
    tick_of,
    timing_of,
)
from warplens_tools.errors import InputError
from warplens_tools.run.probe.records import TimingRecord

SETTINGS = MeasureSettings()
QUICK = MeasureSettings(resamples=200)


def rounds(
    seed: int, gain: float, *, noise: float = 0.004, count: int = 40, drift: float = 0.0
) -> TimingRecord:
    """Rounds of a 100 µs kernel; `gain` is the true speedup, `drift` what clocks do over all rounds."""
    generator = random.Random(seed)

    def duration(index: int, scale: float) -> float:
        return 1e5 * scale * (1 + drift * index / count) * generator.lognormvariate(0, noise)

    return TimingRecord(
        "program",
        baseline=tuple(duration(i, 1.0) for i in range(count)),
        candidate=tuple(duration(i, 1 / gain) for i in range(count)),
        again=tuple(duration(i, 1.0) for i in range(count)),
        checked=3,
    )


def test_the_same_is_never_called_faster() -> None:
    called = [change(timing_of(rounds(seed, 1.0), QUICK), QUICK) for seed in range(100)]
    assert called.count("same") == 100


@pytest.mark.parametrize(("gain", "said"), [(1.03, "faster"), (0.97, "slower"), (2.0, "faster")])
def test_a_true_change_is_found(gain: float, said: Change) -> None:
    called = [change(timing_of(rounds(seed, gain), QUICK), QUICK) for seed in range(20)]
    assert called.count(said) >= 18


def test_drifting_clocks_are_taken_out_by_the_pairs() -> None:
    called = [change(timing_of(rounds(seed, 1.0, drift=0.3), QUICK), QUICK) for seed in range(20)]
    assert set(called) == {"same"}


def test_the_interval_covers_the_truth() -> None:
    covered = 0
    for seed in range(100):
        record = rounds(seed, 1.05)
        interval = ratio(record.baseline, record.candidate, QUICK, seed)
        covered += interval.low <= 1.05 <= interval.high
    assert covered >= 88


@given(st.lists(st.floats(1.0, 1e9), min_size=2, max_size=40), st.floats(0.5, 2.0))
@settings(max_examples=30)
def test_intervals_hold_their_median_and_scale(samples: list[float], by: float) -> None:
    interval = bootstrap(samples, QUICK)
    assert interval.low <= interval.median <= interval.high
    scaled = bootstrap([x * by for x in samples], QUICK)
    assert scaled.median == pytest.approx(interval.median * by)
    assert ratio(samples, samples, QUICK).median == 1.0
    assert noise_floor(samples, samples, QUICK) == 0.0


def ticking(seed: int, gain: float, *, about: float, count: int, tick: float = 32.0) -> TimingRecord:
    """Rounds of a kernel of `about` ns, with a right tail, read of a clock that ticks at any moment of its run."""
    generator = random.Random(seed)

    def duration(mean: float) -> float:
        took = mean * (1 + generator.expovariate(1 / 0.004)) + generator.gauss(0, 4)
        began = generator.uniform(0, tick)
        return tick * ((began + took) // tick)

    def turns(mean: float) -> tuple[float, ...]:
        return tuple(duration(mean) for _ in range(count))

    return TimingRecord("flushed", turns(about), turns(about / gain), turns(about), 3)


@pytest.mark.parametrize("count", [5, 7, 15, 40])
@pytest.mark.sampled(1)
def test_a_clock_that_ticks_makes_nothing_faster(count: int) -> None:
    records = [ticking(seed, 1.0, about=1000 + seed * 1.7, count=count) for seed in range(300)]
    called = Counter(change(timing_of(record, QUICK), QUICK) for record in records)
    assert called["same"] >= 299, called


def test_a_coarser_clock_is_seen_in_the_durations() -> None:
    record = ticking(1, 1.0, about=5e4, count=60, tick=1024.0)
    timing = timing_of(record, QUICK)
    assert timing.noise >= 1024 / 5.1e4
    assert tick_of((1183.0, 1184.0, 1185.0, 1216.0) * 4, 8.0) == 31.0
    assert tick_of((1000.0, 1003.0, 1011.0), 32.0) == 32.0


def test_a_true_gain_is_found_beside_the_tick() -> None:
    called = [change(timing_of(ticking(seed, 1.03, about=2e4, count=60), QUICK), QUICK) for seed in range(20)]
    assert called.count("faster") >= 18


def test_both_turns_of_the_baseline_are_single_durations() -> None:
    # the mean of two lies between ticks, or leans to one side, where single ones do not
    lower, upper = (1e5,) * 12 + (1.1e5,) * 8, (1.1e5,) * 8 + (1e5,) * 12
    timing = timing_of(
        TimingRecord("flushed", baseline=lower, candidate=upper, again=upper, checked=3), QUICK
    )
    assert (timing.speedup.median, timing.baseline_ns.median) == (1.0, 1e5)


def test_of_few_rounds_the_interval_holds_those_of_all() -> None:
    record = rounds(5, 1.0, noise=0.05, count=5)
    single = [
        (a + b) / (2 * c) for a, b, c in zip(record.baseline, record.again, record.candidate, strict=True)
    ]
    interval = timing_of(record, QUICK).speedup
    assert interval.low <= min(single) and max(single) <= interval.high


def test_noise_above_the_gain_hides_it() -> None:
    record = rounds(1, 1.02, noise=0.2, count=15)
    assert change(timing_of(record, SETTINGS), SETTINGS) == "same"


def test_faster_in_one_cache_state_may_not_be_slower_in_the_other() -> None:
    fast = timing_of(rounds(1, 1.2), QUICK)
    slow = timing_of(rounds(2, 0.8), QUICK)
    level = timing_of(rounds(3, 1.0), QUICK)
    assert overall([fast, level], QUICK)[0] == "faster"
    assert overall([slow, level], QUICK)[0] == "slower"
    assert overall([level, level], QUICK)[0] == "same"
    record = rounds(4, 0.8)
    cold = timing_of(TimingRecord("flushed", record.baseline, record.candidate, record.again, 1), QUICK)
    state, reason = overall([fast, cold], QUICK)
    assert state == "same"
    assert reason.startswith("faster in one cache state and slower in the other")


def test_rounds_that_could_not_be_measured_are_left_out() -> None:
    record = TimingRecord("program", (1e5, 0.0, 1e5, 1e5), (5e4, 5e4, 0.0, 5e4), (1e5, 1e5, 1e5), 0)
    left = measurable(record)
    assert (left.baseline, left.candidate, left.again) == ((1e5,), (5e4,), (1e5,))
    assert measurable(TimingRecord("program", (), (), (), 0)).candidate == ()


@given(st.lists(st.sampled_from([0.0, 1e5, float("inf"), float("nan")]), max_size=6))
def test_no_samples_are_said_and_no_ratio_divides_by_zero(samples: list[float]) -> None:
    sound = [x for x in samples if x == 1e5]
    if sound:
        assert ratio(samples, samples, QUICK).median == 1.0
    else:
        with pytest.raises(InputError, match="no round took a measurable time"):
            ratio(samples, samples, QUICK)
    with pytest.raises(InputError, match="no launch of it could be timed"):
        bootstrap([], QUICK)
