# SPDX-License-Identifier: Apache-2.0
"""Whether one set of durations is shorter than another, and how sure that is."""

from __future__ import annotations

import itertools
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
#: The least step of a duration, in ns, by what it was read of. CUPTI's timestamps of kernels come of the card's global
#: timer: of 2660 durations recorded on an H200 (`tests/server/measure/recorded`) all are whole multiples of 32 ns, give
#: or take the one that rounding leaves. Events have "a resolution of approximately 0.5 microseconds" (CUDA Driver API,
#: cuEventElapsedTime). The host's own clock has none that a process's time could show.
CLOCKS = {"CUPTI activity": 32.0, "CUDA events": 500.0}
_ROUNDED = 2.0
HOST_CLOCK = 0.0
#: Below so many rounds a bootstrap of the median is too narrow, and below the first nothing is said.
FEWEST_ROUNDS, _MANY_ROUNDS = 5, 10
#: So many do for a candidate that is far behind in each, and is called nothing for it but provisional.
FEWEST_BEHIND = 2
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
    return speedup(above, above, below, settings, seed)


def speedup(
    baseline: Sequence[float],
    again: Sequence[float],
    candidate: Sequence[float],
    settings: MeasureSettings,
    seed: int = 1,
) -> Interval:
    """The median of the baseline's turns, both of each round, over that of the candidate, with its interval.

    Both turns are single durations, as the candidate's are: the mean of two has another median than one of them where
    a clock ticks or durations lean to one side, and the baseline would be slower than itself. Of few rounds the
    interval holds that of the rounds' own ratios as well, which needs no resampling.

    Raises:
        InputError: in no round all took a measurable time.
    """
    generator = random.Random(seed)
    turns = [t for t in zip(baseline, again, candidate, strict=False) if all(map(_measurable, t))]
    if not turns:
        raise InputError("no round took a measurable time")
    ratios = [_ratio(generator.choices(turns, k=len(turns))) for _ in range(settings.resamples)]
    interval = _interval(_ratio(turns), ratios)
    if len(turns) >= _MANY_ROUNDS:
        return interval
    low, high = _ends([(a + b) / (2 * c) for a, b, c in turns])
    return Interval(interval.median, min(interval.low, low), max(interval.high, high))


def _ratio(turns: Sequence[tuple[float, float, float]]) -> float:
    baseline = [a for a, _, _ in turns] + [b for _, b, _ in turns]
    return _middle(baseline) / _middle([c for _, _, c in turns])


def _ends(values: list[float]) -> tuple[float, float]:
    """The narrowest order statistics that hold the median in 95 of 100 cases, by the binomial distribution; of fewer
    than six the least and the greatest, which five hold in 94."""
    values.sort()
    count = len(values)
    cut, beyond = 0, 2 / 2**count
    while beyond + 2 * math.comb(count, cut + 1) / 2**count <= _LOW * 2:
        cut += 1
        beyond += 2 * math.comb(count, cut) / 2**count
    return values[cut], values[-1 - cut]


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


def tick_of(samples: Sequence[float], clock: float) -> float:
    """The least step in ns between durations that were read of a clock with steps of `clock` at least.

    Where most durations occur again and again, the clock is what tells them apart, and it may be coarser than is known
    of it; where they hardly do, its steps are small against what they vary by.
    """
    found = sorted(set(samples))
    steps = [b - a for a, b in itertools.pairwise(found) if b - a > _ROUNDED]
    return max(clock, min(steps)) if steps and 2 * len(found) <= len(samples) else clock


def timing_of(
    record: TimingRecord, settings: MeasureSettings, clock: float = CLOCKS["CUPTI activity"]
) -> Timing:
    """One timing of a candidate, on a clock with steps of so many ns at least."""
    turns = (record.baseline, record.again, record.candidate)
    timing = timing_of_turns(*turns, settings, clock)
    return msgspec.structs.replace(timing, cache="flushed" if record.cache == "flushed" else "program")


def timing_of_turns(
    baseline: Sequence[float],
    again: Sequence[float],
    candidate: Sequence[float],
    settings: MeasureSettings,
    clock: float,
) -> Timing:
    """The same of durations in ns by round, the baseline's two turns of each first. One tick of the clock is noise."""
    tick = tick_of((*baseline, *again, *candidate), clock)
    shortest = min(
        (_middle(list(turns)) for turns in (baseline, again, candidate) if turns), default=math.inf
    )
    return Timing(
        baseline_ns=bootstrap((*baseline, *again), settings),
        candidate_ns=bootstrap(candidate, settings),
        speedup=speedup(baseline, again, candidate, settings),
        noise=max(noise_floor(baseline, again, settings), tick / shortest),
        rounds=min(map(len, (baseline, again, candidate))),
    )


def change(timing: Timing, settings: MeasureSettings) -> Change:
    """Faster or slower only where the whole interval lies beyond the noise, the clock's tick among it, and the smallest
    gain."""
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
