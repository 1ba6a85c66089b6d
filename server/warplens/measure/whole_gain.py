# SPDX-License-Identifier: Apache-2.0
"""The rebuilt program beside the original, both behind the fence: does it launch what was judged, and how fast."""

from __future__ import annotations

from statistics import median

import msgspec

from warplens.measure.build.candidates import Built
from warplens.measure.energy import EnergyGain, EnergyMeter
from warplens.measure.kernel.target import Target
from warplens.measure.program.rebuilt import Rebuilt
from warplens.measure.program.whole import ProgramRun, difference
from warplens.measure.session import PreparedWorkload
from warplens.measure.verdict import Interval, State
from warplens_tools.errors import CompileError, InputError, MissingToolError, TimeLimitError, ToolFailedError
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import Task
from warplens_tools.toolchain.symbols import unit_free_name

#: Programs that end within so many seconds are run as often as the settings say: by judgement, where a process's start
#: is much of the time, and scatters. Of longer ones two runs a side are the fewest where each goes first once.
_SHORT = 0.4


class ProgramGain(msgspec.Struct, frozen=True):
    """The whole program, original against rebuilt, in alternating runs. Intervals are whole ranges."""

    baseline_seconds: Interval
    candidate_seconds: Interval
    #: baseline / candidate: above 1 is faster.
    speedup: Interval
    #: Where it was asked for, and could be measured.
    energy: EnergyGain | None = None


def unsettled(built: Built, opened: PreparedWorkload, rebuilt: Rebuilt, task: Task) -> str:
    """How the original does not do the same behind the fence, or the rebuilt program does not launch what was judged;
    "" where neither is so. It says nothing against the candidate, only that it was not seen there."""
    try:
        rebuilt.settle(opened.program, opened.text.text, opened.baseline.program, task)
    except (InputError, CompileError, TimeLimitError, ToolFailedError) as error:
        return str(error)
    return _geometry(rebuilt, built, opened.target, task)


def timed(
    opened: PreparedWorkload, rebuilt: Rebuilt, rounding: float, task: Task
) -> ProgramGain | tuple[State, str]:
    """The whole program's gain, or how the rebuilt one does not do the same; both run behind the fence."""
    work, settings = opened.session.workload, opened.session.settings
    # of a slow program two runs each have to do
    short = opened.baseline.program.seconds < _SHORT
    try:
        before, after = _alternating(
            rebuilt, settings.program_runs if short else min(2, settings.program_runs), task
        )
    except TimeLimitError:
        return "hung", f"the rebuilt program did not end within {work.time_limit:g} s"
    except ToolFailedError as error:
        return "unproven", str(error)
    strange = difference(before, after, rounding=rounding)
    return ("wrong", strange) if strange else _gain(before, after)


def energy_gain(opened: PreparedWorkload, rebuilt: Rebuilt, task: Task) -> EnergyGain | Unknown:
    """Of the whole program, original against rebuilt, or why it is not known. Raises CancelledError."""

    def once(*, original: bool) -> None:
        task.check()
        rebuilt.run(task, original=original)

    meter = EnergyMeter(opened.session.gpu.uuid)
    try:
        return meter.compare(lambda: once(original=True), lambda: once(original=False))
    except (MissingToolError, ToolFailedError, TimeLimitError) as error:
        return Unknown("the energy of a run", str(error), error.remedy)


def _alternating(rebuilt: Rebuilt, runs: int, task: Task) -> tuple[list[ProgramRun], list[ProgramRun]]:
    before: list[ProgramRun] = []
    after: list[ProgramRun] = []
    for turn in range(runs):
        # each goes first in every other turn: whoever does pays for what has gone cold
        for original in (True, False) if turn % 2 else (False, True):
            (before if original else after).append(rebuilt.run(task, original=original))
    return before, after


def _geometry(rebuilt: Rebuilt, built: Built, target: Target, task: Task) -> str:
    """Why the rebuilt program's launches are not those that were judged; "" if they are."""
    try:
        surveyed = rebuilt.launches(60.0, task)
    except (InputError, TimeLimitError) as error:
        return f"the rebuilt program cannot be followed: {error}"
    job, shape = built.job, target.shape
    wanted = (
        job.grid or shape.grid,
        job.block or shape.block,
        shape.shared if job.shared is None else job.shared,
    )
    name = unit_free_name(job.entry)
    found = {(s.grid, s.block, s.shared) for s in surveyed if unit_free_name(s.mangled) == name}
    if wanted in found:
        return ""
    return f"the rebuilt program launches the kernel as {sorted(found)}, judged was {wanted}"


def _gain(before: list[ProgramRun], after: list[ProgramRun]) -> ProgramGain:
    """The interval is the whole range: a handful of runs has no finer one."""
    old, new = _range([r.seconds for r in before]), _range([r.seconds for r in after])
    speedup = Interval(old.median / new.median, old.low / new.high, old.high / new.low)
    return ProgramGain(old, new, speedup)


def _range(seconds: list[float]) -> Interval:
    return Interval(median(seconds), min(seconds), max(seconds))
