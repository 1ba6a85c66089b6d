# SPDX-License-Identifier: Apache-2.0
"""The kernel as it is, in a module of its own, runs along with candidates where that module is linked anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import warplens.measure.kernel.visits as room
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel.gate import verdict_of
from warplens.measure.kernel.target import Target
from warplens.measure.kernel.visit_spec import VisitSpec
from warplens.measure.kernel.visits import Look, VisitResult, Visits
from warplens_tools.arch.load import load_architecture
from warplens_tools.errors import InputError
from warplens_tools.evidence import CompiledKernel, Resources
from warplens_tools.run.probe.job import Job, JobCandidate
from warplens_tools.run.probe.records import (
    BaselineRecord,
    Begin,
    Closed,
    Opened,
    Record,
    ResultRecord,
    Stage,
    SurveyedShape,
    read_records,
)
from warplens_tools.run.probe.visit import Command, ProbeRun

RECORDED = Path(__file__).parent / "recorded"
CONTROL = JobCandidate("as-it-is", "/c", "k")
SETTINGS = MeasureSettings(resamples=200)


def recorded(name: str) -> ResultRecord:
    records = read_records(RECORDED / "affine-visit.jsonl")
    return next(r for r in records if isinstance(r, ResultRecord) and r.candidate == name)


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    shape = next(r for r in read_records(RECORDED / "affine-survey.jsonl") if isinstance(r, SurveyedShape))
    compiled = CompiledKernel("k", "k(float*)", "k", "sm_90", Resources(32))
    place = VisitSpec(
        command=Command(("true",), ""),
        target=Target("k", compiled, shape, 1, 1.0),
        parameters=(),
        variables=(),
        library=tmp_path / "probe.so",
        helpers=tmp_path / "kernels.cubin",
        time_limit=1.0,
        launch=0,
        control=CONTROL,
    )
    return Visits(place, SETTINGS, tmp_path)


def answer(
    monkeypatch: pytest.MonkeyPatch, control: ResultRecord | None, free_share: float = 0.0
) -> list[Job]:
    """What a visit says: of the control as given (None: it dies of it), of every candidate the recorded `slow`."""
    first = [
        r for r in read_records(RECORDED / "affine-visit.jsonl") if isinstance(r, Opened | BaselineRecord)
    ]
    jobs: list[Job] = []

    def run(
        _: Command,
        job: Job,
        __: Path,
        *,
        on_record: Callable[[Record], None],
        on_arrival: Callable[[], None] | None,
        **___: object,
    ) -> ProbeRun:
        jobs.append(job)
        if on_arrival is not None:
            on_arrival()
        records: list[Record] = list(first)
        for candidate in job.candidates:
            records.append(Begin(candidate.id))
            known = control if candidate.id == CONTROL.id else recorded("slow")
            if known is None:
                break
            records.append(msgspec.structs.replace(known, candidate=candidate.id))
        else:
            records.append(Closed(free_share))
        for record in records:
            on_record(record)
        if on_arrival is not None:
            on_record(Stage("ended"))
        return ProbeRun(tuple(records), None)

    monkeypatch.setattr(room, "run_with_probe", run)
    return jobs


def judge(visits: Visits) -> list[VisitResult]:
    heard: list[VisitResult] = []
    try:
        visits.judge([JobCandidate("a", "/a", "k"), JobCandidate("b", "/b", "k")], heard.append)
    finally:
        assert CONTROL.id not in [one.result.candidate for one in heard]
    return heard


def test_it_goes_first_and_is_no_candidate(visits: Visits, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = answer(monkeypatch, recorded("geometry"))
    heard = judge(visits)
    assert [c.id for c in jobs[0].candidates] == [CONTROL.id, "a", "b"]
    assert [one.result.candidate for one in heard] == ["a", "b"]
    assert all(one.control is not None and one.control.candidate == CONTROL.id for one in heard)


@pytest.mark.parametrize("lost", [False, True])
def test_nothing_is_judged_where_it_is_not_right(
    lost: bool, visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, None if lost else recorded("skip"))
    with pytest.raises(InputError, match="linked anew, is not what the program runs"):
        judge(visits)


def test_how_far_it_is_from_itself_is_noise(visits: Visits, monkeypatch: pytest.MonkeyPatch) -> None:
    def state(control: ResultRecord, children: bool = False) -> tuple[str, float]:
        answer(monkeypatch, control)
        one = msgspec.structs.replace(judge(visits)[0], children=children)
        judged = verdict_of(
            one,
            gpu=load_architecture("sm_90"),
            settings=SETTINGS,
            resources=Resources(32),
            baseline_resources=Resources(32),
        )
        return judged.state, min(t.noise for t in judged.timings)

    assert state(recorded("geometry"))[0] == "slower"
    # a module that is by itself as slow as the candidate says nothing of the candidate
    said, noise = state(recorded("slow"))
    assert said == "same"
    assert noise > 0.1
    # a kernel that launches others is never so near to itself
    assert state(recorded("geometry"), children=True)[1] > SETTINGS.child_noise


class Turns:
    """A card's turn that notes what is done with it."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def take(self) -> None:
        self.noted.append("taken")

    def leave(self) -> None:
        self.noted.append("left")


@pytest.mark.parametrize(("free_share", "ends"), [(0.9, ["left", "ended"]), (0.2, ["ended"])])
def test_the_card_is_left_before_the_program_ends_unless_memory_is_scarce(
    free_share: float, ends: list[str], visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, recorded("geometry"), free_share)
    turn = Turns()
    monkeypatch.setattr(
        visits,
        "_note",
        lambda record, note=visits._note: (
            turn.noted.append("ended") if isinstance(record, Stage) else note(record)
        ),
    )
    heard: list[VisitResult] = []

    def hear(one: VisitResult) -> None:
        heard.append(one)
        turn.noted.append("heard")

    visits.judge([JobCandidate("a", "/a", "k")], hear, turn=turn)
    assert turn.noted == ["left", "taken", "heard", *ends] and heard


def come_to_that(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """Have every candidate that is asked come to that."""
    answer(monkeypatch, recorded("geometry"), 0.9)
    run: Callable[..., ProbeRun] = vars(room)["run_with_probe"]

    def come_to(*given: object, on_record: Callable[[Record], None], **named: object) -> ProbeRun:
        def heard(record: Record) -> None:
            odd = isinstance(record, ResultRecord) and record.candidate != CONTROL.id
            on_record(msgspec.structs.replace(record, state=state) if odd else record)

        return run(*given, on_record=heard, **named)

    monkeypatch.setattr(room, "run_with_probe", come_to)


@pytest.mark.parametrize(
    ("state", "between"), [("right", ["taken"]), ("provisional", ["left", "left", "taken"])]
)
def test_the_card_is_kept_for_the_look_in_full_at_what_a_brief_one_has_found(
    state: str, between: list[str], visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    come_to_that(monkeypatch, state)
    turn, one = Turns(), [JobCandidate("a", "/a", "k")]
    visits.judge(one, lambda _: turn.noted.append("heard"), turn=turn, look=Look(1.1, sifts=True))
    full = Look(1.1, at_once=state == "right")
    visits.judge(one, lambda _: turn.noted.append("heard"), turn=turn, look=full)
    assert turn.noted == ["left", "taken", "heard", *between, "heard", "left"]
