# SPDX-License-Identifier: Apache-2.0
"""Whether one set of durations is shorter than another, and how sure that is."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import median
from typing import Literal

import msgspec

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.verdict import SPANS, Interval, Timing
from warplens_tools.errors import InputError
from warplens_tools.run.probe.records import TimingRecord

#: Ends of a 95 % interval among sorted resamples.
_LOW, _HIGH = 0.025, 0.975
Change = Literal["slower", "same", "faster"]


def bootstrap(samples: Sequence[float], settings: MeasureSettings, seed: int = 1) -> Interval:
    """The median with its 95 % percentile bootstrap interval (Efron 1979).

    Raises:
        InputError: there is no sample.
    """
    if not samples:
        raise InputError("no launch of it could be timed")
    generator = random.Random(seed)
    count = len(samples)
    medians = [_middle(generator.choices(samples, k=count)) for _ in range(settings.resamples)]
    return _interval(median(samples), medians)


def _middle(values: list[float]) -> float:
    """The median, without what `statistics.median` checks: this is called hundreds of times a candidate."""
    values.sort()
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def ratio(
    above: Sequence[float], below: Sequence[float], settings: MeasureSettings, seed: int = 1
) -> Interval:
    """median(above) / median(below) with its bootstrap interval; rounds are resampled as pairs.

    Pairs keep what a round has in common (clocks, temperature) on both sides of the ratio.

    Raises:
        InputError: in no round both took a measurable time.
    """
    generator = random.Random(seed)
    pairs = [pair for pair in zip(above, below, strict=False) if all(map(_measurable, pair))]
    if not pairs:
        raise InputError("no round took a measurable time")
    rounds, ratios = range(len(pairs)), []
    for _ in range(settings.resamples):
        chosen = generator.choices(rounds, k=len(rounds))
        ratios.append(_middle([pairs[i][0] for i in chosen]) / _middle([pairs[i][1] for i in chosen]))
    return _interval(median([a for a, _ in pairs]) / median([b for _, b in pairs]), ratios)


def _measurable(duration: float) -> bool:
    return math.isfinite(duration) and duration > 0


def measurable(record: TimingRecord) -> TimingRecord:
    """The rounds in which all three durations could be measured: a dropped activity or a clock that stood still
    leaves a zero, and a record may be cut short."""
    rounds = zip(record.baseline, record.candidate, record.again, strict=False)
    kept = [one for one in rounds if all(map(_measurable, one))]
    baseline, candidate, again = zip(*kept, strict=True) if kept else ((), (), ())
    return msgspec.structs.replace(record, baseline=baseline, candidate=candidate, again=again)


def _interval(middle: float, resampled: list[float]) -> Interval:
    resampled.sort()
    last = len(resampled) - 1
    low, high = resampled[round(_LOW * last)], resampled[round(_HIGH * last)]
    return Interval(middle, min(low, middle), max(high, middle))


def noise_floor(baseline: Sequence[float], again: Sequence[float], settings: MeasureSettings) -> float:
    """How far the baseline's ratio to itself may be from 1: the far end of its interval."""
    same = ratio(baseline, again, settings)
    return max(abs(same.low - 1.0), abs(same.high - 1.0))


def timing_of(record: TimingRecord, settings: MeasureSettings) -> Timing:
    """One timing of a candidate, with the baseline's two turns of each round taken together."""
    both = [(a + b) / 2 for a, b in zip(record.baseline, record.again, strict=False)]
    return Timing(
        baseline_ns=bootstrap(both, settings),
        candidate_ns=bootstrap(record.candidate, settings),
        speedup=ratio(both, record.candidate, settings),
        noise=noise_floor(record.baseline, record.again, settings),
        rounds=len(both),
        cache="flushed" if record.cache == "flushed" else "program",
    )


def change(timing: Timing, settings: MeasureSettings) -> Change:
    """Faster or slower only where the whole interval lies beyond the noise and the smallest gain."""
    floor = max(timing.noise, settings.smallest_gain)
    if timing.speedup.low > 1.0 + floor:
        return "faster"
    return "slower" if timing.speedup.high < 1.0 - floor else "same"


def overall(timings: Sequence[Timing], settings: MeasureSettings) -> tuple[Change, str]:
    """The change over all cache states (or spans), and why: faster in one may not be slower in another."""
    changes = [change(timing, settings) for timing in timings]
    words = ", ".join(_said(timing, said) for timing, said in zip(timings, changes, strict=True))
    found = set(changes)
    if {"faster", "slower"} <= found:
        ways = "one cache state" if timings[0].span == "launch" else "one way"
        return "same", f"faster in {ways} and slower in the other: {words}"
    if "faster" in found:
        return "faster", words
    return ("slower" if "slower" in found else "same"), words


def _said(timing: Timing, said: Change) -> str:
    state = SPANS.get(timing.span, "L2 flushed" if timing.cache == "flushed" else "as in the program")
    interval = timing.speedup
    return (
        f"{state} {interval.median:.3f}× [{interval.low:.3f}, {interval.high:.3f}]"
        f" with noise {timing.noise:.3f}: {said}"
    )
