# SPDX-License-Identifier: Apache-2.0
"""From what the probe says of an accompanied program to what is said of its candidates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel import accompany as module
from warplens.measure.kernel.accompany import AccompaniedRun, Replacement, accompany
from warplens.measure.kernel.target import Target
from warplens.measure.kernel.visit_spec import VisitSpec
from warplens_tools.errors import InputError
from warplens_tools.evidence import CompiledKernel, Resources
from warplens_tools.process.run import Completed
from warplens_tools.run.probe.job import Job, JobCandidate, encode_job
from warplens_tools.run.probe.records import (
    Accompanied,
    Begin,
    Compared,
    Failed,
    Record,
    Stage,
    SurveyedShape,
)
from warplens_tools.run.probe.visit import Command, ProbeRun

SHAPE = SurveyedShape("relax", (8, 1, 1), (64, 1, 1), 0, 12, 0, 12, 0, 1e4, (1e3,))
RIGHT = Compared("mine", "relax", 0, (8, 1, 1), (64, 1, 1), "right", "", 0.01)
WRONG = msgspec.structs.replace(RIGHT, launch=7, state="wrong", reason="results differ")
WHOLE = Accompanied("mine", "relax", 12, 0, 5, 1, 12, "", True)
DONE = Completed(("program",), 0, "sum 3\n", "", 0.5)
Say = Callable[[Job], ProbeRun]


def told(monkeypatch: pytest.MonkeyPatch, folder: Path, say: Say) -> AccompaniedRun:
    """What is made of a run in which the probe says that."""

    def run(_command: Command, job: Job, _library: Path, **_: object) -> ProbeRun:
        return say(job)

    monkeypatch.setattr(module, "run_with_probe", run)
    compiled = CompiledKernel("relax", "relax(float*)", "relax", "sm_90", Resources(32))
    place = VisitSpec(
        command=Command(("program",), ""),
        target=Target("relax", compiled, SHAPE, 12, 1.0),
        parameters=(),
        variables=(),
        library=Path("probe.so"),
        helpers=Path("kernels.cubin"),
        time_limit=10.0,
        launch=2,
    )
    replacement = Replacement("relax", JobCandidate("mine", "mine.cubin", "edited"), 12)
    return accompany(place, [replacement], MeasureSettings(), folder)


@pytest.mark.parametrize(
    ("records", "completed", "state", "said"),
    [
        ((Begin("mine"), RIGHT, WHOLE), DONE, "right", "5 of 12 launches of relax compared at 1 shapes"),
        (
            (Begin("mine"), RIGHT, Begin("mine"), WRONG),
            DONE,
            "wrong",
            "at launch 7 of relax, with grid 8x1x1",
        ),
        ((Begin("mine"), RIGHT), DONE, "crashed", "the program ended early, with 0"),
        ((Begin("mine"), RIGHT, Begin("mine")), None, "hung", "a launch of it did not come back"),
        ((Begin("mine"), RIGHT), None, "hung", "the program did not end"),
        ((), DONE, "crashed", "the program ended early"),
        (
            (RIGHT, msgspec.structs.replace(WHOLE, left="it ran in another context")),
            DONE,
            "unproven",
            "not every launch of relax was the candidate's: it ran in another context",
        ),
        ((msgspec.structs.replace(WHOLE, compared=0),), DONE, "unproven", "no launch of relax was compared"),
    ],
)
def test_what_is_said_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    records: tuple[Record, ...],
    completed: Completed | None,
    state: str,
    said: str,
) -> None:
    ran = told(monkeypatch, tmp_path, lambda _: ProbeRun(records, completed))
    assert ran.state == state
    assert said in ran.reason
    whole = completed is not None and any(isinstance(r, Accompanied) for r in records)
    assert (ran.program is not None) == whole


def test_a_question_that_the_baseline_dies_of_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Job] = []

    def say(job: Job) -> ProbeRun:
        asked.append(job)
        encode_job(job)
        records: tuple[Record, ...] = (Begin("mine"), RIGHT, WHOLE)
        if job.options["poison"]:
            records = (Stage("moved inputs"), Stage("poison"), Failed("the launch failed"))
        return ProbeRun(records, DONE)

    ran = told(monkeypatch, tmp_path, say)
    assert (ran.state, ran.given_up) == ("right", ("poison",))
    assert [job.options["poison"] for job in asked] == [True, False]
    assert asked[0].seed != asked[1].seed
    assert asked[0].candidates[0].kernel == "relax"


def test_a_program_that_cannot_be_followed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be accompanied: no room"):
        told(monkeypatch, tmp_path, lambda _: ProbeRun((Failed("no room"),), DONE))
