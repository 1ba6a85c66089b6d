# SPDX-License-Identifier: Apache-2.0
"""Which kernels the program runs, and how long each takes."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from warplens.measure.program.whole import ProgramRun
from warplens_tools.errors import InputError, TimeLimitError
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.probe.job import Job, Shape
from warplens_tools.run.probe.records import Failed, SurveyedShape, SurveyEnd
from warplens_tools.run.probe.visit import Command, run_with_probe


def survey(
    command: Command, library: Path, folder: Path, time_limit: float, task: Task = UNATTENDED
) -> tuple[SurveyedShape, ...]:
    """Run the program once under the probe and list its kernels by launch shape. Raises as `survey_run`."""
    return survey_run(command, library, folder, time_limit, task)[0]


def survey_run(
    command: Command, library: Path, folder: Path, time_limit: float, task: Task = UNATTENDED
) -> tuple[tuple[SurveyedShape, ...], ProgramRun]:
    """The same, with how the program ran, which the probe slows down a little.

    Raises:
        InputError: the probe could not work in it, or it ended without telling.
        TimeLimitError, MissingToolError, CancelledError: as named.
    """
    with tempfile.TemporaryDirectory(dir=folder, prefix="survey-") as place:
        job = Job(mode="survey", result=str(Path(place) / "records.jsonl"), parent=os.getpid())
        # following every launch costs a program of tiny kernels about as much as they do themselves
        run = run_with_probe(command, job, library, timeout=3 * time_limit, task=task)
    for record in run.records:
        if isinstance(record, Failed):
            raise InputError(f"the program's kernels cannot be followed: {record.reason}")
    shapes = tuple(r for r in run.records if isinstance(r, SurveyedShape))
    done = run.completed
    if done is None:
        raise TimeLimitError(
            f"the program did not end within {3 * time_limit:g} s while its kernels were followed",
            remedy="give it less work by its arguments, or raise its time limit",
        )
    end = next((r for r in run.records if isinstance(r, SurveyEnd)), None)
    if end is not None and end.failed and not any(shape.timed for shape in shapes):
        raise InputError(
            f"the program's own kernels fail on this card: {end.failed}",
            remedy="`compute-sanitizer PROGRAM` says where; nothing of what a kernel did until then can be measured",
        )
    if end is not None:
        return shapes, ProgramRun(done.status, done.seconds, done.stdout, done.stderr)
    if done.status == 0 and not shapes:
        raise InputError(
            "the program launches no kernel, or leaves by _exit before it can be asked",
            remedy="give the arguments and files with which it does, as settings of the program",
        )
    raise InputError(f"the program, followed by the probe, ended with {done.status}")


def named(shape: SurveyedShape) -> str:
    """A launch shape in words."""
    grid, block = ("x".join(map(str, extent)) for extent in (shape.grid, shape.block))
    return f"with grid {grid} and block {block}"


def paired(
    before: Sequence[SurveyedShape], after: Sequence[SurveyedShape]
) -> list[tuple[SurveyedShape, Shape]] | None:
    """Which geometry of a rebuilt program stands for which of the original's, both of one kernel; None if unclear.

    Launches stand for each other in the order in which they are made. Where that is not known, geometries are as many,
    launched as often, and in the order of their threads: a wrong pair does not compute the same.
    """
    ordered = _in_order(before, after)
    if ordered is not None:
        return ordered

    def threads(shape: SurveyedShape) -> tuple[int, ...]:
        return math.prod(shape.grid) * math.prod(shape.block), shape.runs, shape.shared

    old, new = sorted(before, key=threads), sorted(after, key=threads)
    if [s.runs for s in old] != [s.runs for s in new] or not old:
        return None
    return [(a, Shape(b.grid, b.block, b.shared)) for a, b in zip(old, new, strict=True)]


def _in_order(
    before: Sequence[SurveyedShape], after: Sequence[SurveyedShape]
) -> list[tuple[SurveyedShape, Shape]] | None:
    """The same by the order of the launches; None where it is not known of all, or one shape would have two."""
    if any(len(s.order) != s.launches + s.captured for s in (*before, *after)) or not before:
        return None
    new = {number: Shape(s.grid, s.block, s.shared) for s in after for number in s.order}
    if new.keys() != {number for s in before for number in s.order}:
        return None
    pairs = [(s, {new[number] for number in s.order}) for s in before]
    return [(s, shapes.pop()) for s, shapes in pairs] if all(len(p) == 1 for _, p in pairs) else None
