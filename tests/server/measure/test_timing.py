# SPDX-License-Identifier: Apache-2.0
"""Faster, slower or the same: on made-up durations whose truth is known."""

from __future__ import annotations

import random

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
