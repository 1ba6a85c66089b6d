# SPDX-License-Identifier: Apache-2.0
"""Times whole programs and what the device does for them, candidate against baseline, in interleaved rounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Literal

import msgspec

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.program.device_work import Tracer
from warplens.measure.program.examine import Rejected, same, work_like
from warplens.measure.program.program_sandbox import observe
from warplens.measure.program.reference import BASELINE, Reference
from warplens.measure.timing import CLOCKS, HOST_CLOCK, timing_of_turns
from warplens.measure.verdict import Interval, Timing
from warplens.measure.whole_gain import ProgramGain
from warplens_tools.process.task import Task

_TURNS = ("baseline", "candidate", "again")


class Rounds(msgspec.Struct, frozen=True):
    """By turn ("baseline", "candidate", the baseline "again"), one entry a round."""

    #: Of whole processes, in ns.
    process: dict[str, list[float]]
    #: In which a device did anything, in ns.
    device: dict[str, list[float]]


def time_rounds(
    reference: Reference, name: str, tracer: Tracer, settings: MeasureSettings, task: Task
) -> Rounds:
    """Traced rounds, then untouched ones; what each run does is compared.

    Raises:
        Rejected: a run did otherwise than the baseline before.
    """

    def busy(build: str) -> float:
        return work_like(reference, build, tracer, task).busy_ns

    def process(build: str) -> float:
        return same(reference.runs, lambda: observe(reference.sandbox, build, task=task)).run.seconds * 1e9

    return Rounds(
        device=_interleaved(busy, name, settings.outside_traces, settings),
        process=_interleaved(process, name, settings.outside_rounds, settings),
    )


def _interleaved(
    measure: Callable[[str], float], name: str, most: int, settings: MeasureSettings
) -> dict[str, list[float]]:
    """`most` rounds, fewer where time runs out, after one that warms up disk caches and clocks."""
    times: dict[str, list[float]] = {turn: [] for turn in _TURNS}
    started = time.monotonic()
    for number in range(-1, most):
        if number >= settings.outside_least and time.monotonic() - started > settings.outside_seconds:
            break
        # over three rounds each comes first, in the middle and last
        first = number % len(_TURNS)
        for turn in (*_TURNS[first:], *_TURNS[:first]):
            ns = _measured(measure, name, turn)
            if number >= 0:
                times[turn].append(ns)
    return times


def _measured(measure: Callable[[str], float], name: str, turn: str) -> float:
    if turn == "candidate":
        return measure(name)
    try:
        return measure(BASELINE)
    except Rejected as odd:
        raise Rejected("unproven", f"the original itself does not always do the same: {odd.reason}") from odd


def timings_of(rounds: Rounds, settings: MeasureSettings) -> tuple[Timing, ...]:
    """The whole process and the device's work, each against the baseline in the same rounds."""
    return (
        _timing(rounds.process, "process", settings),
        _timing(rounds.device, "device", settings),
    )


def _timing(
    times: dict[str, list[float]], span: Literal["process", "device"], settings: MeasureSettings
) -> Timing:
    turns = (times["baseline"], times["again"], times["candidate"])
    timing = timing_of_turns(*turns, settings, CLOCKS["CUPTI activity"] if span == "device" else HOST_CLOCK)
    return msgspec.structs.replace(timing, span=span)


def gain_of(rounds: Rounds) -> ProgramGain:
    """The whole program's gain; intervals are whole ranges."""
    old, new = (
        Interval(median(ns) / 1e9, min(ns) / 1e9, max(ns) / 1e9)
        for ns in ([*rounds.process["baseline"], *rounds.process["again"]], rounds.process["candidate"])
    )
    return ProgramGain(old, new, Interval(old.median / new.median, old.low / new.high, old.high / new.low))
