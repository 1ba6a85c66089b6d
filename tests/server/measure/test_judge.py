# SPDX-License-Identifier: Apache-2.0
"""The whole judge without a GPU: real sources, compiler and job files; a card's recorded answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.standard import STANDARD

from warplens.measure import card as card_room
from warplens.measure import confirm as confirm_room
from warplens.measure import kept as kept_room
from warplens.measure import session as session_room
from warplens.measure.build.candidates import Built
from warplens.measure.confirm import Confirmation
from warplens.measure.judge import Judge
from warplens.measure.judge_settings import MeasureSettings
from warplens.measure.kernel import accompany as accompany_room
from warplens.measure.kernel import stand_in as stand_in_room
from warplens.measure.kernel import survey as survey_room
from warplens.measure.kernel import visits as visits_room
from warplens.measure.program import program_sandbox as sandbox_room
from warplens.measure.program import rebuilt as rebuilt_room
from warplens.measure.program.effects import RunEffects
from warplens.measure.program.outside import OutsideJudge
from warplens.measure.program.program_sandbox import ProgramSandbox
from warplens.measure.program.whole import ProgramRun
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.arch.load import load_architecture
from warplens_tools.errors import InputError, MissingToolError, TimeLimitError
from warplens_tools.process.run import Completed
from warplens_tools.run.gpu_lock import gpu_lock, holder
from warplens_tools.run.probe.job import UNTOLD_GRID, Job, Shape, encode_job
from warplens_tools.run.probe.records import (
    Accompanied,
    BaselineRecord,
    Begin,
    Closed,
    Compared,
    Damaged,
    Failed,
    Never,
    Opened,
    Record,
    ResultRecord,
    Stage,
    SurveyedShape,
    SurveyEnd,
    TimingRecord,
    read_records,
)
from warplens_tools.run.probe.visit import Command, ProbeRun
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText, TextEdit
from warplens_tools.toolchain.locate import resolve_toolchain

RECORDED = Path(__file__).parent / "recorded"
PROGRAM = Path(__file__).parents[2] / "gpu/programs/affine.cu"
SETTINGS = MeasureSettings(resamples=100, build_jobs=2, confirmations=2)
pytestmark = pytest.mark.compiler


class Card:
    """Answers jobs as a card would: surveys from a recording, candidates by `faults` or as 20 % faster."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        #: What a visit does with a candidate, by a word of its cubin's entry or id: "hangs", "kills", a state.
        self.faults: dict[str, str] = {}
        #: Stages that the baseline does not survive.
        self.fatal: set[str] = set()
        self.gain = 1.2
        self.outputs = ("sum 1.5\n", "sum 1.5\n")
        #: Of each visit, whether it took the card when its program had started.
        self.waited: list[bool] = []
        #: Called while a program starts that has not taken the card yet.
        self.while_it_starts: Callable[[], None] = lambda: None
        #: Called while a program is at work beside others.
        self.while_beside: Callable[[], None] = lambda: None
        records = read_records(RECORDED / "affine-visit.jsonl")
        self._opened = next(r for r in records if isinstance(r, Opened))
        self._baseline = next(r for r in records if isinstance(r, BaselineRecord))
        (self.shape,) = [
            r for r in read_records(RECORDED / "affine-survey.jsonl") if isinstance(r, SurveyedShape)
        ]
        self.other = msgspec.structs.replace(
            self.shape, grid=(4, 8, 1), launches=2, total_ns=self.shape.total_ns / 9
        )

    def answer(
        self,
        command: Command,
        job: Job,
        library: Path,
        *,
        on_record: Callable[[Record], None] | None = None,
        on_arrival: Callable[[], object] | None = None,
        **_: object,
    ) -> ProbeRun:
        assert library.name == "probe.so"
        assert Path(command.arguments[0]).is_file()
        assert encode_job(job)
        self.jobs.append(job)
        stalled = ""
        records: list[Record] = []
        if job.mode == "survey":
            records = [self.shape, self.other, SurveyEnd()]
        elif job.mode == "accompany":
            records = self._accompanied(job)
        else:
            self.waited.append(on_arrival is not None)
            held = holder("GPU-test") is not None
            assert held or on_arrival is not None, "a program uses the card that is not its own"
            if on_arrival is not None:
                self.while_it_starts()
                on_arrival()
                assert holder("GPU-test") is not None
            else:
                self.while_beside()
            for record in self._visit(job):
                records.append(record)
                if on_record is not None:
                    on_record(record)
            last = records[-1]
            stalled = last.candidate if isinstance(last, Begin) else ""
            stalled = stalled if self.faults.get(stalled) == "hangs" else ""
        completed = None if stalled else Completed(command.arguments, 0, self.outputs[0], "", 0.1)
        return ProbeRun(tuple(records), completed, stalled)

    def _accompanied(self, job: Job) -> list[Record]:
        (one,) = job.candidates
        record = Compared(one.id, one.kernel, 3, (1, 1, 1), (32, 1, 1), "right", "an element differs", 0.1)
        if self.faults.get(one.id) == "seldom":
            record = msgspec.structs.replace(record, state="wrong")
        return [record, Accompanied(one.id, one.kernel, one.launches, 0, 4, 2, one.launches, "", True)]

    def _visit(self, job: Job) -> list[Record]:
        records: list[Record] = [self._opened]
        asked = {"fill": job.options["fill"], "poison": job.options["poison"], "later launch": job.launch}
        asked |= {f"variant {v.name}": 1 for v in job.variants}
        for stage, on in asked.items():
            if on and stage in self.fatal:
                return [*records, Stage(stage), Failed("the launch failed with CUDA_ERROR_ILLEGAL_ADDRESS")]
        records.append(self._baseline)
        for candidate in job.candidates:
            records.append(Begin(candidate.id))
            fault = self.faults.get(candidate.id, "right")
            if fault in ("hangs", "kills"):
                return records
            if fault == "untold" and candidate.by_rule:
                untold = self._result(candidate.id, "unproven", False)
                records.append(msgspec.structs.replace(untold, reason=UNTOLD_GRID))
                continue
            if fault == "damages":
                return [*records, Damaged(candidate.id)]
            state = "wrong" if fault == "elsewhere" and not job.options["time"] else "right"
            state = fault if fault in ("wrong", "illegal", "crashed") else state
            records.append(self._result(candidate.id, state, bool(job.options["time"])))
            if state == "crashed":
                return records
        return [*records, Closed()]

    def _result(self, id: str, state: str, timed: bool) -> ResultRecord:
        base = tuple(1e5 + 10.0 * (i % 7) for i in range(21))
        fast = tuple(x / self.gain for x in base)
        timings = [TimingRecord(c, base, fast, base[::-1], 2) for c in ("program", "flushed")]
        result = ResultRecord(id, "right", "" if state == "right" else f"it is {state}", bitwise=True)
        return msgspec.structs.replace(
            result, state=state, timings=tuple(timings) if timed and state == "right" else ()
        )

    def run(self, *_: object) -> ProgramRun:
        return ProgramRun(0, 1.1, self.outputs[0], "")

    def observe(self, _: ProgramSandbox, name: str, **__: object) -> RunEffects:
        rebuilt = name == "rebuilt"
        return RunEffects(ProgramRun(0, 1.0 if rebuilt else 1.1, self.outputs[rebuilt], ""))


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Card:
    toolchain = resolve_toolchain()
    if toolchain.find("nvcc") is None or toolchain.find("cupti_library") is None:
        pytest.skip("no nvcc or no CUPTI")
    card = Card()
    gpu = msgspec.structs.replace(load_architecture("sm_90"), uuid="GPU-test", present=True)
    folder = tmp_path_factory.mktemp("judge")
    # what one test keeps of its program is no other's
    monkeypatch.setattr(kept_room, "cache_folder", lambda: folder / "cache")
    library = folder / "probe.so"
    library.touch()
    monkeypatch.setenv("WARPLENS_LOCKS", str(folder))
    monkeypatch.setattr(card_room, "present_gpus", lambda: (gpu,))
    monkeypatch.setattr(session_room, "probe_library", lambda *_, **__: library)
    for room in (survey_room, visits_room, accompany_room):
        monkeypatch.setattr(room, "run_with_probe", card.answer)
    for room in (session_room, stand_in_room):
        monkeypatch.setattr(room, "run_program", card.run)
    monkeypatch.setattr(rebuilt_room, "observe", card.observe)
    return card


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole programs are not built: what they print is the card's business."""

    def place(_: Workload, *, folder: Path, **__: object) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program").touch()
        return folder / "program"

    for room in (session_room, sandbox_room):
        monkeypatch.setattr(room, "build_program", place)
    # what an empty file carries of machine code is not looked at
    monkeypatch.setattr(confirm_room, "shipped_otherwise", lambda *_, **__: "")


def edit(id: str, old: str, new: str) -> Candidate:
    text = SourceText.read(PROGRAM)
    start = text.text.index(old)
    return Candidate(id, str(PROGRAM), "affine", (TextEdit(text.span(start, start + len(old)), new),))


def variant(id: str, factor: int) -> Candidate:
    return edit(id, "gain[column] +", f"gain[column] * {factor}.0f +")


def judge() -> Judge:
    return Judge(Workload(str(PROGRAM), str(PROGRAM), flags=STANDARD), settings=SETTINGS)


def test_a_batch_goes_on_after_every_fault(card: Card) -> None:
    card.faults = {"b": "hangs", "c": "kills", "d": "damages", "e": "wrong", "f": "crashed", "g": "illegal"}
    candidates = [variant(id, number) for number, id in enumerate("abcdefgh", 2)]
    candidates.append(edit("comment", "    int column", "    // nothing\n    int column"))
    candidates.append(edit("host", "return 0;", "return 1;"))
    told: list[str] = []
    with judge() as judging:
        baseline = judging.baseline()
        verdicts = judging.judge(candidates, on_verdict=lambda v: told.append(v.candidate))
        folder = judging._folder
        assert folder.is_dir()
    assert not folder.exists()
    assert {v.candidate: v.state for v in verdicts} == {
        "a": "faster",
        "b": "hung",
        "c": "crashed",
        "d": "crashed",
        "e": "wrong",
        "f": "crashed",
        "g": "illegal",
        "h": "faster",
        "comment": "same",
        "host": "refused",
    }
    assert [v.candidate for v in verdicts] == [c.id for c in candidates]
    assert sorted(told) == sorted(c.id for c in candidates)
    assert [[c.id for c in job.candidates] for job in card.jobs[1:]] == [
        list("abcdefgh"),
        list("cdefgh"),
        list("defgh"),
        list("efgh"),
        list("gh"),
    ]
    # others have the card whenever the program starts, after a fault too
    assert card.waited == [True] * 5
    assert holder("GPU-test") is None
    assert (baseline.kernel, baseline.timing.grid) == ("affine", card.shape.grid)
    assert baseline.compiled.resources.registers > 0
    job = card.jobs[1]
    assert job.shape == Shape(card.shape.grid, card.shape.block, card.shape.shared)
    given = [("f32", False), *[("f32", True)] * 3, *[("integer", False)] * 2]
    assert [(p.element, p.constant) for p in job.parameters] == given
    assert job.launch == SETTINGS.launch


@pytest.mark.thorough
def test_a_launch_that_follows_no_rule_is_asked_for(
    card: Card, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    grid, given = "columns / 256, 64), 256", "(columns + block - 1) / block, 64), block"
    text = (
        PROGRAM.read_text()
        .replace(grid, given)
        .replace("columns = 1024;", "columns = count(argc), block = 256;")
    )
    source = tmp_path / "affine.cu"
    source.write_text(
        text.replace("int main(", "int count(int n) { return n < 9 ? 1024 : 512; }\n\nint main(")
    )
    card.other, card.faults = msgspec.structs.replace(card.other, mangled="_Z5otherv"), {"b": "untold"}
    asked: list[list[str]] = []

    def launched(_: object, built: list[Built], *__: object) -> list[Built]:
        asked.append([one.candidate.id for one in built if one.candidate.asks_program])
        return built

    monkeypatch.setattr("warplens.measure.placed.asking", lambda *_: [])
    monkeypatch.setattr("warplens.measure.judge.placed", launched)
    at = source.read_text().index("block = 256") + len("block = ")
    shorter = TextEdit(SourceText.read(source).span(at, at + 3), "128")
    with Judge(Workload(str(source), str(source), flags=STANDARD), settings=SETTINGS) as judging:
        told: list[Verdict] = []
        twins = [Candidate(id, str(source), "affine", (shorter,)) for id in "ab"]
        verdicts = judging.judge(twins, on_verdict=told.append)
        judging.judge([Candidate("c", str(source), "affine", (shorter,))])
    assert [v.state for v in verdicts] == ["faster", "faster"]
    assert [v.candidate for v in told] == ["a", "b"]
    # how each was launched comes with its verdict: `a` by the rule, so that its grid is not known here
    assert verdicts[0].launch is not None and verdicts[1].launch is not None
    assert (verdicts[0].launch.grid, verdicts[0].launch.block) == (None, (128, 1, 1))
    assert verdicts[1].launch.grid == card.shape.grid
    # once it did not hold, no rule is taken for a launch
    assert asked == [[], ["b"], ["c"]]
    ruled = [[c.by_rule for c in job.candidates] for job in card.jobs if job.mode == "visit"]
    assert ruled[0] == [True, True] and not any(ruled[-1])


@pytest.mark.usefixtures("unbuilt")
def test_others_have_the_card_between_the_steps_of_a_confirmation(card: Card) -> None:
    turns, beside = list[int](), list[int]()

    def use() -> None:
        with gpu_lock("GPU-test", "another search", timeout=5):
            turns.append(len(card.jobs))

    def share() -> None:
        # what else the edit changes is timed, too: nobody is beside that
        with (
            contextlib.suppress(TimeLimitError),
            gpu_lock("GPU-test", "another confirmation", shared=True, timeout=0.5),
        ):
            beside.append(len(card.jobs))

    with judge() as judging:
        judging.baseline()
        before = len(card.jobs)
        card.while_it_starts, card.while_beside = use, share
        confirmation = judging.confirm(variant("a", 2))
    assert confirmation.verdict.state == "faster"
    # each fresh process waits for a turn of its own; whoever needs no clock either may be beside what comes after them:
    # all inputs, the first launch and the last
    assert len([at for at in turns if before < at]) == judging.settings.confirmations
    assert len(beside) == 3


@pytest.mark.usefixtures("unbuilt")
def test_what_is_much_faster_is_timed_in_few_rounds_before_it_is_confirmed(card: Card) -> None:
    with judge() as judging:
        judging.judge([variant("a", 2)])
        clear = judging.settings.clear_gain
    first, *further = [j.options["clear"] for j in card.jobs if j.mode == "visit"]
    assert first == clear > 0.1
    assert set(further) <= {0.0}


@pytest.mark.usefixtures("unbuilt")
def test_questions_the_baseline_does_not_stand_are_left_out(card: Card) -> None:
    card.fatal = {"poison", "variant with noise", "variant with other scalars", "fill", "later launch"}
    with judge() as judging:
        (verdict,) = judging.judge([variant("a", 2)])
    assert verdict.state == "faster"
    last = card.jobs[-1]
    assert (last.options["poison"], last.options["fill"]) == (0, 0)
    assert {v.kind for v in last.variants} & {"moved", "scalars"} == set()
    # which of the others are asked is drawn
    assert len({v.kind for v in last.variants}) > 2
    assert last.launch == 0


@pytest.mark.usefixtures("unbuilt")
def test_a_launch_that_cannot_be_visited_says_why(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "_visit", lambda _: [Failed("CUPTI takes no subscriber")])
    with judge() as judging, pytest.raises(InputError, match="cannot be visited: CUPTI takes no subscriber"):
        judging.judge([variant("a", 2)])


@pytest.mark.usefixtures("unbuilt")
def test_a_winner_is_confirmed_elsewhere_afresh_and_whole(card: Card) -> None:
    with judge() as judging:
        confirmed = judging.confirm(variant("a", 2))
    assert confirmed.verdict.state == "faster", confirmed.verdict.reason
    assert "in each of 2 fresh processes" in confirmed.verdict.reason
    assert "in the program itself 4 of 7 launches of affine compared at 2 shapes" in confirmed.verdict.reason
    assert confirmed.verdict.timings[0].rounds == 42
    assert confirmed.program is not None
    assert confirmed.program.speedup.median == pytest.approx(1.1)
    visited = [(j.shape, j.launch, bool(j.options["time"])) for j in card.jobs if j.mode == "visit"]
    mine = Shape(card.shape.grid, card.shape.block, 0)
    other = Shape(card.other.grid, card.other.block, 0)
    last = card.shape.launches - 1
    # its other shape, launches of the judged one, and the fresh processes
    assert visited[:3] == [(other, 1, True), *[(mine, 2, True)] * 2]
    # and what is compared beside one another: other launches, and all inputs
    assert sorted(v[1] for v in visited[3:]) == sorted([0, 2, last]) and not any(v[2] for v in visited[3:])
    assert {j.options["clear"] for j in card.jobs if j.mode == "visit"} == {0.0}, "timed in full"
    assert {"fresh processes", "all inputs", "in place", "rebuilt program"} <= set(confirmed.cost)
    assert confirmed.verdict.further is not None
    assert confirmed.verdict.further.sentences()[0].startswith("also compared: affine(float*, ")


@pytest.mark.usefixtures("unbuilt")
def test_a_winner_that_is_wrong_elsewhere_is_wrong(card: Card) -> None:
    card.faults = {"a": "elsewhere"}
    with judge() as judging:
        confirmed = judging.confirm(variant("a", 2))
    assert confirmed.verdict.state == "wrong"
    assert confirmed.verdict.reason.startswith("at launch ") and " with grid " in confirmed.verdict.reason
    assert confirmed.program is None


@pytest.mark.usefixtures("unbuilt")
def test_a_winner_that_is_wrong_at_a_launch_drawn_at_random_is_wrong(card: Card) -> None:
    card.faults = {"a": "seldom"}
    with judge() as judging:
        verdict = judging.confirm(variant("a", 2)).verdict
    assert verdict.state == "wrong"
    assert verdict.reason.startswith("at launch 3 of ")
    assert verdict.reason.endswith(": an element differs")


@pytest.mark.parametrize(
    ("outputs", "state"), [(("sum 1.5\n", "sum 1.6\n"), "wrong"), (("a\n", "a\n"), "faster")]
)
@pytest.mark.usefixtures("unbuilt")
def test_the_rebuilt_program_must_print_as_before(card: Card, outputs: tuple[str, str], state: str) -> None:
    card.outputs = outputs
    with judge() as judging:
        verdict = judging.confirm(variant("a", 2)).verdict
        assert verdict.state == state, verdict.reason


@pytest.mark.usefixtures("unbuilt")
def test_a_winner_that_does_not_win_again_is_no_winner(card: Card) -> None:
    card.gain = 1.0
    with judge() as judging:
        confirmed = judging.confirm(variant("a", 2))
        assert confirmed.verdict.state == "same"
        assert confirmed.verdict.reason.startswith("in fresh process 1: ")
        assert judging.confirm(edit("host", "return 0;", "return 1;")).verdict.state == "refused"


@pytest.mark.usefixtures("card", "unbuilt")
def test_host_code_is_judged_from_outside_where_the_settings_allow_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outside: list[str] = []

    def from_outside(_: OutsideJudge, candidate: Candidate, *__: object) -> Verdict:
        outside.append(candidate.id)
        return Verdict(candidate.id, "same", "judged from outside the program: it is")

    def again(_: OutsideJudge, candidate: Candidate, *__: object) -> Confirmation:
        return Confirmation(from_outside(_, candidate))

    monkeypatch.setattr(OutsideJudge, "judge", from_outside)
    monkeypatch.setattr(OutsideJudge, "confirm", again)
    host, key = edit("host", "return 0;", "return 1;"), '#include "/root/.ssh/id_rsa"\n'
    candidates = [host, variant("device", 2), edit("a key", "int main", key + "int  main")]
    candidates.append(edit("signature", "int rows", "unsigned rows"))
    settings = msgspec.structs.replace(SETTINGS, host_edits=True)
    with Judge(Workload(str(PROGRAM), str(PROGRAM), flags=STANDARD), settings=settings) as judging:
        verdicts = judging.judge(candidates)
        assert [v.state for v in verdicts] == ["same", "faster", "refused", "same"]
        assert outside == ["host", "signature"]
        assert judging.confirm(host).verdict.state == "same"
        assert outside == ["host", "signature", "host"]
        assert judging.confirm(candidates[1]).verdict.state == "faster"
    with judge() as judging:
        (refused,) = judging.judge([host])
        assert refused.state == "refused"
        assert refused.reason.startswith("the edit changes host code: `") and "return 1" in refused.reason
        assert "optimize.host-edits" in refused.reason
    assert len(outside) == 3


def test_without_a_card_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_room, "present_gpus", lambda: ())
    with judge() as judging, pytest.raises(MissingToolError, match="nothing can be measured: "):
        judging.baseline()


@pytest.mark.usefixtures("unbuilt")
def test_a_kernel_that_could_not_be_timed_is_refused_by_name(card: Card) -> None:
    card.shape = msgspec.structs.replace(card.shape, samples=())
    with judge() as judging, pytest.raises(InputError, match="launches of affine could be timed"):
        judging.baseline()


@pytest.mark.usefixtures("unbuilt")
def test_rounds_of_no_duration_are_no_proof(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    result = card._result

    def empty(id: str, state: str, timed: bool) -> ResultRecord:
        record = TimingRecord("program", (0.0, 1e5), (0.0,), (1e5,), 0)
        return msgspec.structs.replace(result(id, state, timed), timings=(record,))

    monkeypatch.setattr(card, "_result", empty)
    with judge() as judging:
        (verdict,) = judging.judge([variant("a", 2)])
    assert (verdict.state, verdict.reason) == ("unproven", "no launch of it could be timed")


@pytest.mark.usefixtures("unbuilt")
def test_a_second_start_takes_the_baseline_where_the_first_left_it(card: Card) -> None:
    with judge() as judging:
        first = judging.baseline()
    assert [job.mode for job in card.jobs] == ["survey"]
    with judge() as judging:
        again = judging.baseline()
        assert [job.mode for job in card.jobs] == ["survey"]
        assert judging.judge([variant("a", 2)])[0].state == "faster"
        assert [job.mode for job in card.jobs] == ["survey", "visit"]
    assert (again.timing, again.kernels, again.program) == (first.timing, first.kernels, first.program)
    assert again.compiled == first.compiled


@pytest.mark.usefixtures("unbuilt")
def test_a_baseline_that_does_not_hold_any_more_is_measured_anew(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    with judge() as judging:
        judging.baseline()
    card.shape = msgspec.structs.replace(card.shape, grid=(2, 2, 1))
    visit = card._visit

    def moved(job: Job) -> list[Record]:
        matches = job.shape is not None and job.shape.grid == (2, 2, 1)
        return visit(job) if matches else [Never(seen=5, captured=0, matching=0)]

    monkeypatch.setattr(card, "_visit", moved)
    with judge() as judging:
        assert judging.judge([variant("a", 2)])[0].state == "faster"
        assert judging.baseline().timing.grid == (2, 2, 1)
    assert [job.mode for job in card.jobs] == ["survey", "visit", "survey", "visit"]
