# SPDX-License-Identifier: Apache-2.0
"""Energy of a program's runs, from NVML's counter of the card's total energy, without the card's idle share.

The counter is a sum over a power sensor's readings, refreshed every 20 to 100 ms, and on A100 and H100 the sensor looks
at about a quarter of the time (Yang, Adámek, Armour, SC 2024). So work is repeated until it has lasted `least_seconds`
for one sample, a sample begins and ends where the counter ticks, and the two versions take turns; what samples of one
version differ by is the uncertainty that is stated.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from statistics import mean, stdev

import msgspec

from warplens.measure.verdict import Interval
from warplens_tools.arch.nvml import gpu_state
from warplens_tools.errors import MissingToolError, ToolFailedError

#: Seconds after which a counter that stands still is not read by this card.
_STUCK = 2.0
#: Seconds between looks at the counter.
_POLL = 0.002
#: Student's t for 95 %, two-sided, by degrees of freedom; beyond the table the normal's.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)

ReadEnergy = Callable[[], float | None]


class EnergySettings(msgspec.Struct, frozen=True):
    """How long energy is measured. Seconds."""

    #: One sample lasts at least so long: forty periods of the slowest refresh, of which the sensor sees a quarter. A
    #: program whose card rests between its kernels is seen wrongly where one begins or ends within a period.
    least_seconds: float = 4.0
    #: Samples of each version.
    samples: int = 5
    #: The card's own draw is watched so long, before and after.
    idle_seconds: float = 1.0
    #: A version's runs of one sample at most: a program of milliseconds is no load for a sensor.
    most_runs: int = 200


class Sample(msgspec.Struct, frozen=True):
    """Energy of some runs."""

    #: Joules by the counter, idle share included.
    joules: float
    #: Between the ticks that it was read at.
    seconds: float
    runs: int


class EnergyGain(msgspec.Struct, frozen=True):
    """Joules a run of two versions, without what the idle card would have drawn in the same time.

    The intervals are Student's, of means (which stand where a median does elsewhere): what a sensor misses in one
    sample it sees in another.
    """

    baseline_j: Interval
    candidate_j: Interval
    #: baseline / candidate: above 1 takes less energy.
    ratio: Interval
    #: Of the card at rest, between the samples.
    idle_w: float
    #: Of the card while it worked, both versions.
    busy_w: float
    #: Samples of each version, and how long they lasted in all.
    samples: int
    seconds: float

    def words(self) -> str:
        """In one sentence, with its uncertainty."""
        saved = 100.0 * (1.0 - 1.0 / self.ratio.median)
        low, high = (100.0 * (1.0 - 1.0 / r) for r in (self.ratio.low, self.ratio.high))
        return (
            f"Energy of a run: {self.baseline_j.median:.3g} J before, {self.candidate_j.median:.3g} J after, "
            f"{saved:.1f} % less (95 %: {low:.1f} to {high:.1f} %), without the {self.idle_w:.0f} W of the idle card."
        )


class EnergyMeter:
    """Reads one card. Its lock is the caller's."""

    def __init__(
        self,
        uuid: str,
        settings: EnergySettings | None = None,
        *,
        read: ReadEnergy | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`read`: joules since some moment; NVML's of the card if None."""
        self.settings = settings or EnergySettings()
        self._read = read or (lambda: gpu_state(uuid).energy_j)
        self._clock, self._sleep = clock, sleep

    def compare(self, baseline: Callable[[], None], candidate: Callable[[], None]) -> EnergyGain:
        """Run both in turns and compare. Each call is one run of a program, to its end.

        Raises:
            MissingToolError: the card or its driver does not count energy.
            ToolFailedError: the difference to the idle card is within its own uncertainty.
        """
        runs = self._runs(baseline, candidate)
        idles = [self._idle()]
        samples: dict[bool, list[Sample]] = {False: [], True: []}
        for turn in range(self.settings.samples):
            # each goes first in every other turn: a warm card leaks more
            for own in (True, False) if turn % 2 else (False, True):
                samples[own].append(self._sample(candidate if own else baseline, runs))
            idles.append(self._idle())
        return gain(samples[False], samples[True], idles)

    def joules(self, versions: Sequence[Callable[[], None]]) -> list[float]:
        """Joules a run of each by one sample, the idle card's share included: to choose what is compared. Raises as
        `compare`."""
        runs = self._runs(*versions)
        return [self._sample(version, runs).joules / runs for version in versions]

    def _runs(self, *versions: Callable[[], None]) -> int:
        """Runs of one sample, from the shorter version's first; it warms both up, too."""
        seconds = []
        for version in versions:
            started = self._clock()
            version()
            seconds.append(self._clock() - started)
        wanted = math.ceil(self.settings.least_seconds / max(min(seconds), 1e-3))
        return max(1, min(wanted, self.settings.most_runs))

    def _sample(self, run: Callable[[], None], runs: int) -> Sample:
        joules, started = self._tick()
        for _ in range(runs):
            run()
        after, ended = self._tick()
        return Sample(after - joules, ended - started, runs)

    def _idle(self) -> float:
        """Watts of the card while nothing of ours runs."""
        joules, started = self._tick()
        self._sleep(self.settings.idle_seconds)
        after, ended = self._tick()
        return (after - joules) / (ended - started)

    def _tick(self) -> tuple[float, float]:
        """The counter where it changes next, and when that is: between ticks it is up to 100 ms old."""
        first = self._joules()
        started = self._clock()
        while self._clock() - started < _STUCK:
            now = self._joules()
            if now != first:
                return now, self._clock()
            self._sleep(_POLL)
        raise MissingToolError(
            "the card's energy counter stands still", remedy="measure time instead: --objective time"
        )

    def _joules(self) -> float:
        joules = self._read()
        if joules is None:
            raise MissingToolError(
                "this card, or its driver, does not count energy",
                remedy="measure time instead: --objective time",
            )
        return joules


def gain(baseline: Sequence[Sample], candidate: Sequence[Sample], idles: Sequence[float]) -> EnergyGain:
    """What samples come to. The idle power's own spread counts as uncertainty of every sample.

    Raises:
        ToolFailedError: the work's share cannot be told from the idle card's.
    """
    idle = mean(idles)
    own = {
        name: [(s.joules - idle * s.seconds) / s.runs for s in samples]
        for name, samples in (("baseline", baseline), ("candidate", candidate))
    }
    drift = stdev(idles) if len(idles) > 1 else 0.0
    before, after = (
        _interval(own[name], drift * mean(s.seconds / s.runs for s in samples))
        for name, samples in (("baseline", baseline), ("candidate", candidate))
    )
    if before.low <= 0 or after.low <= 0:
        raise ToolFailedError(
            "the program draws no more than the idle card, as far as its energy counter tells",
            remedy="give the program more work for the card by its arguments, or more launches by its launch spec",
        )
    pairs = [a / b for a, b in zip(own["baseline"], own["candidate"], strict=True)]
    ratio = _interval(pairs, drift * mean(s.seconds / s.runs for s in candidate) / after.median)
    seconds = sum(s.seconds for s in (*baseline, *candidate))
    busy = sum(s.joules for s in (*baseline, *candidate)) / seconds
    return EnergyGain(before, after, ratio, idle, busy, len(baseline), seconds)


def _interval(values: Sequence[float], more: float) -> Interval:
    """Their mean, with Student's 95 % interval widened by a further standard error."""
    middle = mean(values)
    if len(values) < 2:
        return Interval(middle, -math.inf, math.inf)
    t = _T95[len(values) - 2] if len(values) - 2 < len(_T95) else 1.96
    half = math.hypot(t * stdev(values) / math.sqrt(len(values)), t * more / math.sqrt(len(values)))
    return Interval(middle, middle - half, middle + half)
