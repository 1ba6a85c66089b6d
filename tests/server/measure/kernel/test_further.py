# SPDX-License-Identifier: Apache-2.0
"""What else an edit changes is judged too: real cubins, made-up launches, a card's recorded answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.compiled import unit_file
from tests.standard import STANDARD

from warplens.measure import card as card_room
from warplens.measure import session as session_room
from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kept import Kept
from warplens.measure.kernel import survey as survey_room
from warplens.measure.kernel import visits as visits_room
from warplens.measure.program.whole import ProgramRun
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.arch.load import load_architecture
from warplens_tools.process.run import Completed
from warplens_tools.process.task import UNATTENDED
from warplens_tools.run.probe.job import Job
from warplens_tools.run.probe.records import (
    BaselineRecord,
    Begin,
    Closed,
    Opened,
    Record,
    ResultRecord,
    SurveyedShape,
    SurveyEnd,
    TimingRecord,
    read_records,
)
from warplens_tools.run.probe.visit import Command, ProbeRun
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.toolchain.locate import resolve_toolchain

RECORDED = Path(__file__).parents[1] / "recorded"
SETTINGS = MeasureSettings(resamples=100, build_jobs=2)
pytestmark = pytest.mark.compiler

CODE = """#define STEP 2
__device__ int offset = 3;
__device__ __forceinline__ float shared(float x) { return x * STEP + offset; }
template <int N> __global__ void scale(float* x) { x[threadIdx.x + blockIdx.x * blockDim.x] *= N; }
__global__ void first(float* x) { x[threadIdx.x] = shared(x[threadIdx.x]); }
__global__ void second(float* x) { x[threadIdx.x] = shared(x[threadIdx.x]) + 1; }
__global__ void unused(float* x) { x[threadIdx.x] = shared(x[threadIdx.x]) + 2; }
__global__ void alone(float* x) { x[threadIdx.x] += 5; }
int main(int count, char**) {
    float* x;
    cudaMalloc(&x, 1 << 20);
    scale<1><<<4, 256>>>(x);
    scale<2><<<8, 256>>>(x);
    if (count > 8) scale<3><<<8, 256>>>(x);
    first<<<1, 256>>>(x);
    second<<<1, 256>>>(x);
    if (count > 9) unused<<<1, 256>>>(x);
    alone<<<1, 256>>>(x);
    return cudaDeviceSynchronize();
}
"""
SCALES = {n: f"_Z5scaleILi{n}EEvPf" for n in (1, 2, 3)}
FIRST, SECOND, ALONE = "_Z5firstPf", "_Z6secondPf", "_Z5alonePf"


def launched(mangled: str, total: float, grid: int = 1, **more: object) -> SurveyedShape:
    shape = SurveyedShape(mangled, (grid, 1, 1), (256, 1, 1), 0, 3, 0, 3, 0, total, (total / 3,) * 3)
    return msgspec.structs.replace(shape, **more)


class Card:
    """Answers as a card would; `broken` and `slow` name kernels, or kernels with a grid, of which candidates are."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.broken: set[object] = set()
        self.slow: set[object] = set()
        self.shapes = [
            launched(SCALES[2], 9e5, 8),
            launched(SCALES[2], 5e5, 16),
            launched(SCALES[1], 3e5, 4),
            launched(FIRST, 2e5),
            launched(SECOND, 1e3),
            launched(ALONE, 1e5),
        ]
        records = read_records(RECORDED / "affine-visit.jsonl")
        self._first = [r for r in records if isinstance(r, Opened | BaselineRecord)]

    def answer(
        self,
        command: Command,
        job: Job,
        _: Path,
        *,
        on_record: Callable[[Record], None] | None = None,
        **__: object,
    ) -> ProbeRun:
        self.jobs.append(job)
        records: list[Record] = [*self.shapes, SurveyEnd()]
        if job.mode == "visit":
            records = list(self._first)
            for candidate in job.candidates:
                records += [Begin(candidate.id), self._result(job, candidate.id)]
            records.append(Closed())
            for record in records:
                if on_record is not None:
                    on_record(record)
        return ProbeRun(tuple(records), Completed(command.arguments, 0, "", "", 0.1))

    def _result(self, job: Job, id: str) -> ResultRecord:
        assert job.shape is not None
        here = {job.kernel, (job.kernel, job.shape.grid[0])}
        if here & self.broken:
            return ResultRecord(id, "wrong", "results differ")
        base = tuple(1e5 + 10.0 * (i % 7) for i in range(21))
        fast = tuple(x * (1.3 if here & self.slow else 0.7) for x in base)
        timings = tuple(TimingRecord(c, base, fast, base[::-1], 2) for c in ("program", "flushed"))
        return ResultRecord(id, "right", "", bitwise=True, timings=timings if job.options["time"] else ())

    @property
    def visited(self) -> list[tuple[str, int, bool]]:
        return [
            (j.kernel, j.shape.grid[0], bool(j.options["time"]))
            for j in self.jobs
            if j.mode == "visit" and j.shape is not None
        ]


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Card:
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None or toolchain.find("cupti_library") is None:
        pytest.skip("no nvcc or no CUPTI")
    card = Card()
    gpu = msgspec.structs.replace(load_architecture("sm_90"), uuid="GPU-test", present=True)
    library = tmp_path / "probe.so"
    library.touch()

    def place(_: Workload, *, folder: Path, **__: object) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program").touch()
        return folder / "program"

    monkeypatch.setenv("WARPLENS_LOCKS", str(tmp_path))
    monkeypatch.setattr(session_room, "kept_of", lambda *_, **__: Kept(""))
    monkeypatch.setattr(card_room, "present_gpus", lambda: (gpu,))
    monkeypatch.setattr(session_room, "probe_library", lambda *_, **__: library)
    monkeypatch.setattr(session_room, "build_program", place)
    monkeypatch.setattr(session_room, "run_program", lambda *_: ProgramRun(0, 1.0, "", ""))
    for room in (survey_room, visits_room):
        monkeypatch.setattr(room, "run_with_probe", card.answer)
    return card


def judged(old: str, new: str, *, kernel: str = "scale", settings: MeasureSettings = SETTINGS) -> Verdict:
    path = unit_file(CODE)
    text = SourceText(CODE)
    start = CODE.index(old)
    edit = TextEdit(text.span(start, start + len(old)), new)
    with Judge(Workload(str(path), str(path), flags=STANDARD), kernel=kernel, settings=settings) as judging:
        (verdict,) = judging.judge([Candidate("c", str(path), "", (edit,))])
    return verdict


@pytest.mark.thorough
def test_an_edit_of_one_kernel_costs_no_more_visits(card: Card) -> None:
    assert judged("+= 5", "+= 6", kernel="alone").state == "faster"
    assert card.visited == [(ALONE, 1, True)]


def test_another_instantiation_is_judged_before_anything_is_faster(card: Card) -> None:
    assert judged("*= N", "*= N + 1").state == "faster"
    assert card.visited == [(SCALES[2], 8, True), (SCALES[1], 4, True)]
    card.broken = {SCALES[1]}
    verdict = judged("*= N", "*= N + 1")
    assert (verdict.state, verdict.reason) == (
        "wrong",
        "void scale<1>(float*) with grid 4x1x1 and block 256x1x1: results differ",
    )
    card.broken, card.slow = set(), {SCALES[1]}
    verdict = judged("*= N", "*= N + 1")
    assert verdict.state == "same"
    assert verdict.reason.startswith(
        "void scale<1>(float*) with grid 4x1x1 and block 256x1x1: slower there: "
    )


def test_a_sibling_that_shares_a_function_is_judged_and_timed_by_its_share(card: Card) -> None:
    # what is never launched is another kernel, and not proven at all
    verdict = judged("#define STEP 2", "#define STEP 3", kernel="first")
    assert verdict.state == "unproven"
    assert verdict.reason == "the edit also changes unused(float*), which this program does not launch"
    assert card.visited == []
    card.shapes.append(launched("_Z6unusedPf", 1e3))
    assert judged("#define STEP 2", "#define STEP 3", kernel="first").state == "faster"
    assert card.visited == [(FIRST, 1, True), (SECOND, 1, False), ("_Z6unusedPf", 1, False)]
    card.broken = {SECOND}
    assert judged("#define STEP 2", "#define STEP 3", kernel="first").state == "wrong"


def test_light_shapes_are_timed_where_they_are_not_light_together(card: Card) -> None:
    # each below two in a hundred of 1.5 milliseconds, seven in a hundred with one another
    card.shapes[4:6] = [
        launched("_Z6unusedPf", 2.1e4),
        *(launched(SECOND, 2e4, grid) for grid in range(2, 5)),
    ]
    card.shapes = [s for s in card.shapes if s.mangled in (FIRST, SECOND, "_Z6unusedPf")]
    card.shapes[0] = launched(FIRST, 1e6)
    card.slow = {"_Z6unusedPf"}
    verdict = judged("#define STEP 2", "#define STEP 3", kernel="first")
    timed = {(name, grid) for name, grid, timed in card.visited if timed}
    assert {name for name, _ in timed} == {FIRST, "_Z6unusedPf"}
    assert (verdict.state, "unused(float*)" in verdict.reason) == ("same", True)


def test_a_variable_that_begins_otherwise_is_not_proven(card: Card) -> None:
    verdict = judged("offset = 3", "offset = 4", kernel="first")
    assert (verdict.state, card.visited) in [
        ("unproven", []),
        ("refused", []),
    ], verdict.reason


def test_a_sibling_out_of_reach_is_not_proven(card: Card) -> None:
    hidden = {"launches": 0, "captured": 3, "obstacle": "a conditional node"}
    card.shapes[2] = msgspec.structs.replace(card.shapes[2], **hidden)
    verdict = judged("*= N", "*= N + 1")
    assert verdict.state == "unproven"
    assert "scale<1>(float*), which cannot be visited: a conditional node" in verdict.reason


def test_every_shape_is_judged_at_the_confirmation_within_a_bound_that_is_named(card: Card) -> None:
    path = unit_file(CODE)
    settings = msgspec.structs.replace(SETTINGS, further_most=1)
    card.broken = {(SCALES[2], 16)}
    start = CODE.index("*= N")
    edit = TextEdit(SourceText(CODE).span(start, start + 4), "*= N + 1")
    candidate = Candidate("c", str(path), "", (edit,))
    with Judge(Workload(str(path), str(path), flags=STANDARD), kernel="scale", settings=settings) as judging:
        (verdict,) = judging.judge([candidate])
        assert verdict.state == "faster"
        confirmed = judging.confirm(candidate).verdict
        assert confirmed.state == "wrong"
        assert confirmed.reason.startswith("void scale<2>(float*) with grid 16x1x1")
        assert confirmed.slower_at == ()
        card.broken, card.slow = set(), {(SCALES[2], 16)}
        slower = judging.confirm(candidate).verdict
        assert (slower.state, slower.slower_at) == ("same", ((16, 1, 1),))
        (built,) = judging._build(judging._open(UNATTENDED), [candidate], lambda _: None, UNATTENDED)
        further = judging._further_judge(judging._open(UNATTENDED))
        plan = further.plan(built, SourceText(CODE), UNATTENDED, all_shapes=True)
        assert not isinstance(plan, tuple)
        assert further.account(plan).sentences() == (
            "also compared: void scale<2>(float*) with grid 16x1x1 and block 256x1x1",
            "also timed, and not slower: void scale<2>(float*) with grid 16x1x1 and block 256x1x1",
            "changed but not run by this program: void scale<3>(float*)",
            "not judged, beyond the bound: void scale<1>(float*) with grid 4x1x1 and block 256x1x1",
        )
