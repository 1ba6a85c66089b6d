# SPDX-License-Identifier: Apache-2.0
"""Many lanes as one judge, with real processes and declared cards: nothing lost, nothing judged twice."""

from __future__ import annotations

import io
import itertools
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from tests.patience import PATIENCE
from tests.server.agent.doubles import CODE, ComputedJudge, problem

from warplens.agent.problem import Learned
from warplens.agent.search_loop import optimize
from warplens.agent.search_settings import Budget
from warplens.agent.tree import SearchTree
from warplens.agent.versions import Ask
from warplens.measure.costs import TIME
from warplens.measure.judge import Baseline, Confirmation
from warplens.measure.judge_settings import Allowed
from warplens.measure.pool.local import LocalLane, local_pool
from warplens.measure.pool.messages import (
    Answer,
    Baselined,
    Done,
    Expecting,
    Failed,
    Judging,
    Said,
    Setup,
    Told,
)
from warplens.measure.pool.on_ray import ray_pool
from warplens.measure.pool.pace import FIRST
from warplens.measure.pool.pool import Pool
from warplens.measure.pool.worker import _Out, _Work
from warplens.measure.verdict import Candidate, Verdict
from warplens.service import pooled
from warplens.service.optimize import open_judge
from warplens.service.pooled import search_opener
from warplens.store.database import open_store
from warplens_tools.decode import from_json
from warplens_tools.errors import CancelledError, InputError, MissingToolError, ToolFailedError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.run.workload import Workload
from warplens_tools.text import SourceText

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("WARPLENS_LOCKS", str(tmp_path / "locks"))
    return tmp_path


def setup(folder: Path, **said: object) -> Setup:
    payload = json.dumps({"folder": str(folder), **said})
    return Setup("tests.server.measure.fake_evaluator:judges", payload)


def candidates(count: int, **titles: str) -> list[Candidate]:
    return [Candidate(f"c{n}", "k.cu", "k", (), title=titles.get(f"c{n}", "")) for n in range(count)]


def log(folder: Path) -> list[list[str]]:
    path = folder / "log"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def judged(folder: Path) -> Counter[str]:
    return Counter(words[-1] for words in log(folder) if words[-2] == "judged")


def speedups(verdicts: Sequence[Verdict]) -> list[float]:
    return [v.timings[0].speedup.median for v in verdicts]


def test_two_cards_share_the_work_and_each_meets_its_own_baseline(folder: Path) -> None:
    told: list[str] = []
    with local_pool(setup(folder, measure=0.02), ["card-a", "card-b"]) as pool:
        assert pool.baseline().kernel == "scale" and pool.confirmation_seconds() == 60
        here = threading.get_ident()

        def on_verdict(verdict: Verdict) -> None:
            assert threading.get_ident() == here
            told.append(verdict.candidate)

        verdicts = pool.judge(candidates(24), on_verdict=on_verdict)
        best = candidates(24)[7]
        assert pool.confirm(best).verdict.state == "faster"
    assert [v.candidate for v in verdicts] == [f"c{n}" for n in range(24)]
    assert speedups(verdicts) == [1 + n / 100 for n in range(24)] and sorted(told) == sorted(
        v.candidate for v in verdicts
    )
    assert set(judged(folder).values()) == {1}
    cards = Counter(v.conditions.uuid for v in verdicts if v.conditions is not None)
    assert set(cards) == {"card-a", "card-b"} and min(cards.values()) >= 4
    # confirmed on the card that judged it
    (confirmation,) = [words[0] for words in log(folder) if words[1] == "confirmed"]
    assert verdicts[7].conditions is not None and confirmation == verdicts[7].conditions.uuid


def test_compiling_overlaps_with_measuring(folder: Path) -> None:
    lanes = [LocalLane(setup(folder, compile=0.1, measure=0.1), "card-a") for _ in range(3)]
    for lane in lanes:
        lane.baseline(Task())
    seconds = []
    for some in (lanes[:1], lanes[1:]):
        with Pool(some) as pool:
            started = time.monotonic()
            pool.judge(candidates(32))
            seconds.append(time.monotonic() - started)
    for lane in lanes:
        lane.end()
    for lane in lanes:
        lane.close()
    assert seconds[0] / seconds[1] > 1.3, seconds


def test_a_killed_worker_gives_back_what_it_had_not_judged(folder: Path) -> None:
    with local_pool(setup(folder, measure=0.02), ["card-a", "card-b"]) as pool:
        verdicts = pool.judge(candidates(24, c5="kills once"))
        assert pool.alive == 3
        assert pool.confirm(candidates(1)[0]).verdict.state == "faster"
    assert speedups(verdicts) == [1 + n / 100 for n in range(24)]
    counted = judged(folder)
    assert len(counted) == 24 and set(counted.values()) == {1}


def test_what_ends_two_workers_is_not_given_to_a_third(folder: Path) -> None:
    with local_pool(setup(folder), ["card-a", "card-b", "card-c"]) as pool:
        verdicts = pool.judge(candidates(12, c3="kills"))
    assert verdicts[3].state == "unproven" and "2 workers ended" in verdicts[3].reason
    assert {v.state for n, v in enumerate(verdicts) if n != 3} == {"faster", "same"} or len(
        judged(folder)
    ) == 11


def test_no_worker_left_is_said_and_what_was_judged_was_told(folder: Path) -> None:
    told: dict[str, str] = {}
    with local_pool(setup(folder), ["card-a"]) as pool:
        with pytest.raises(ToolFailedError, match="every worker") as caught:
            work = candidates(40, c6="kills")
            pool.judge(work, on_verdict=lambda v: told.update({v.candidate: v.state}))
        assert "--resume" in caught.value.remedy and not pool.alive
    # it ended both workers of the card
    assert told.pop("c6") == "unproven" and set(told) == set(judged(folder))


def test_the_lock_of_another_card_is_not_waited_for(folder: Path) -> None:
    # who waited for it would never end
    with gpu_lock("card-b", "another program"), local_pool(setup(folder), ["card-a"]) as pool:
        assert len(pool.judge(candidates(4))) == 4


def test_a_stopped_pool_goes_on_when_it_is_asked_again(folder: Path) -> None:
    token = CancelToken()
    with local_pool(setup(folder, measure=0.3), ["card-a", "card-b"]) as pool:
        pool.baseline()
        threading.Timer(1.0, token.cancel).start()
        with pytest.raises(CancelledError):
            pool.judge(candidates(100), task=Task(token=token))
        before = len(judged(folder))
        assert 0 < before < 100 and pool.confirm(candidates(1)[0]).verdict.state == "faster"


def test_asks_are_handed_on_while_others_are_judged(folder: Path) -> None:
    fresh = iter(candidates(30)[4:])
    asked: list[int] = []
    told: list[str] = []

    def more(_idle: bool) -> list[Candidate]:
        asked.append(len(told))
        return [c for _, c in zip(range(4), fresh, strict=False)]

    with local_pool(setup(folder, measure=0.05), ["card-a"]) as pool:
        pool.stream(candidates(4), more, lambda v: told.append(v.candidate))
    assert sorted(told) == sorted(c.id for c in candidates(30))
    # not all at once, and not only when nothing is left
    assert asked[0] == 0 and 0 < asked[len(asked) // 2] < 30


def test_what_can_be_asked_only_after_a_verdict_is_asked_then(folder: Path) -> None:
    told: list[str] = []
    work = candidates(6)
    fresh = iter(work[1:])

    def more(_idle: bool) -> list[Candidate]:
        # as a tree that waits for what it has handed out
        waits = len(told) < 1 + handed[0]
        if waits:
            return []
        handed[0] += 1
        return [c for _, c in zip(range(1), fresh, strict=False)]

    handed = [0]
    with local_pool(setup(folder), ["card-a"]) as pool:
        pool.stream(work[:1], more, lambda v: told.append(v.candidate))
    assert told == [c.id for c in work]


@pytest.mark.parametrize("cards", [1, 2])
def test_what_is_held_back_is_asked_for_only_where_a_card_has_nothing_to_do(folder: Path, cards: int) -> None:
    fresh = iter(candidates(24))
    told: list[str] = []
    #: Verdicts, and candidates handed on, when each batch was.
    at: list[tuple[int, int]] = []

    def more(idle: bool) -> list[Candidate]:
        # as a policy that ends each batch after two, for their verdicts' sake
        if at and len(told) == at[-1][0] and not idle:
            return []
        batch = [c for _, c in zip(range(2), fresh, strict=False)]
        if batch:
            at.append((len(told), 2 * len(at)))
        return batch

    with local_pool(setup(folder, measure=0.1), [f"card-{n}" for n in range(cards)]) as pool:
        pool.stream((), more, lambda v: told.append(v.candidate))
    assert sorted(told) == sorted(c.id for c in candidates(24))
    first = [handed for verdicts, handed in at if not verdicts]
    # two for two lanes; of the first two each card has one
    assert first == [0]
    for (before, _), (after, handed) in itertools.pairwise(at):
        assert after > before or handed - after < cards


def test_a_card_beside_one_that_works_gets_what_was_held_back() -> None:
    lanes = [EagerLane(card) for card in ("a", "a", "b", "b")]
    fresh = iter(candidates(8))
    told: list[str] = []
    asked: list[bool] = []

    def more(idle: bool) -> list[Candidate]:
        if not told:
            asked.append(idle)
        return [c for _, c in zip(range(1), fresh, strict=False)] if idle else []

    Pool(lanes).stream((), more, lambda v: told.append(v.candidate))
    assert sorted(told) == sorted(c.id for c in candidates(8))
    assert asked[:3] == [True, False, True]


#: Time enough for counters.
LONG = Budget(candidates=24, seconds=600, batch=4)


class ThreadLane:
    """A lane in this process."""

    lost = False
    confirmation_seconds = 60.0
    confirmation_about = 30.0

    def __init__(self, card: str, seconds: float = 0.0) -> None:
        self.card, self.done, self.seconds = card, ComputedJudge(SourceText(CODE)), seconds
        self.expected: list[str] = []

    def expect(self, candidates: Sequence[Candidate]) -> None:
        self.expected += [candidate.text_hash for candidate in candidates]

    def baseline(self, task: Task) -> Baseline:
        return self.done.baseline(task=task)

    def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
        time.sleep(self.seconds)
        self.done.judge(candidates, task=task, on_verdict=told)

    def confirm(self, candidate: Candidate, task: Task) -> Confirmation:
        return self.done.confirm(candidate, task=task)


class DearLane(ThreadLane):
    """Says that each of its verdicts took a minute of the card."""

    def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
        def dear(verdict: Verdict) -> None:
            told(msgspec.structs.replace(verdict, cost={TIME: 60.0}))

        super().judge(candidates, dear, task)


def test_each_candidate_has_its_verdict_where_time_seems_short() -> None:
    with Task().within(50.0) as limit:
        verdicts = Pool([DearLane("a")]).judge(candidates(24), task=limit)
    assert [v.candidate for v in verdicts] == [c.id for c in candidates(24)]


class OddLane(ThreadLane):
    """Fails by what nobody foresaw."""

    def baseline(self, task: Task) -> Baseline:
        raise ValueError(f"no number, cancelled: {task.token.cancelled}")

    def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
        del candidates, told
        self.baseline(task)


def test_a_lane_that_fails_unforeseen_is_not_waited_for() -> None:
    pool = Pool([OddLane("a")])
    raised: list[str] = []

    def ask() -> None:
        for asks in (pool.baseline, lambda: pool.judge(candidates(2))):
            with pytest.raises(ToolFailedError) as caught:
                asks()
            raised.append(str(caught.value))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(timeout=PATIENCE)
    assert raised == ["the judge failed: ValueError: no number, cancelled: False"] * 2


def test_a_stop_reaches_what_has_not_begun(folder: Path) -> None:
    out = io.BytesIO()
    work = _Work(setup(folder), _Out(out))
    work.ask(Judging(tuple(candidates(3))))
    work.stop()
    work.ask(Judging(tuple(candidates(1))))
    work.start()
    while b"done" not in out.getvalue():
        time.sleep(0.01)
    work.end()
    work.join()
    answers = [from_json(line, Answer) for line in out.getvalue().splitlines()]
    assert [type(a) for a in answers if not isinstance(a, Said)] == [Failed, Told, Done]


def test_a_search_goes_on_while_lanes_judge(folder: Path) -> None:
    lanes = [ThreadLane(card) for card in ("a", "a", "b", "b")]
    with open_store(folder) as store:
        result = optimize(problem(), Pool(lanes), store)
    judged = [text for lane in lanes for text in lane.done.judged]
    assert result.outcome == "faster" and len(judged) == len(set(judged)) == 24
    assert sum(bool(lane.done.judged) for lane in lanes) >= 2


def test_steps_that_the_policy_keeps_back_wait_for_a_verdict(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at: list[int] = []
    ask = SearchTree.ask

    def noted(self: SearchTree, count: int = 1, task: Task = UNATTENDED) -> list[Ask]:
        at.append(len(self.versions.told()))
        return ask(self, count, task)

    monkeypatch.setattr(SearchTree, "waits", lambda _self, asks: len(asks) == 2)
    monkeypatch.setattr(SearchTree, "ask", noted)
    lanes = [ThreadLane("a", 0.05), ThreadLane("a", 0.05)]
    with open_store(folder) as store:
        result = optimize(problem(), Pool(lanes), store)
    assert result.outcome == "faster" and sum(len(lane.done.judged) for lane in lanes) == 24
    assert at[0] == 0 and all(before < after for before, after in itertools.pairwise(at))


def test_what_else_is_to_be_done_is_done_while_lanes_work_and_no_longer() -> None:
    left, told = [3], list[str]()

    def meanwhile() -> bool:
        left[0] -= left[0] > 0
        return left[0] > 0

    pool = Pool([ThreadLane("a", 0.3)])
    pool.stream(candidates(2), lambda _: (), lambda v: told.append(v.candidate), meanwhile=meanwhile)
    assert left == [0] and len(told) == 2


def test_what_a_search_begins_with_is_known_while_the_baseline_is_measured(folder: Path) -> None:
    lanes = [ThreadLane("a"), ThreadLane("a")]
    with open_store(folder) as store:
        optimize(problem(kernel="scale"), Pool(lanes), store)
    assert len(lanes[0].expected) == FIRST
    assert lanes[0].expected == lanes[0].done.judged[:FIRST]
    assert not lanes[1].expected


@pytest.mark.parametrize("said", [{}, {"kernel": "scale", "resume": True}])
def test_nothing_is_expected_of_a_kernel_that_is_not_known_yet_or_a_search_that_goes_on(
    folder: Path, said: dict[str, object]
) -> None:
    lane = ThreadLane("a")
    with open_store(folder) as store:
        optimize(problem(**said), Pool([lane]), store)  # type: ignore[arg-type]
    assert not lane.expected and lane.done.judged


def test_cards_are_told_what_each_is_given_first() -> None:
    lanes = [ThreadLane(card) for card in "ab"]
    Pool(lanes, chunk=2).baseline(first=candidates_of)
    assert [lane.expected for lane in lanes] == [["0", "1"], ["2", "3"]]


def candidates_of(count: int) -> list[Candidate]:
    return [Candidate(f"c{n}", "k.cu", "k", (), text_hash=str(n)) for n in range(count)]


def test_what_is_wrong_with_the_first_steps_is_said_when_they_are_asked_for() -> None:
    def first(count: int) -> list[Candidate]:
        raise InputError(f"no {count} steps")

    assert Pool([ThreadLane("a")]).baseline(first=first).kernel == "scale"


@pytest.mark.parametrize("late", [False, True])
def test_a_worker_lets_its_judge_know_while_it_measures_the_baseline(folder: Path, *, late: bool) -> None:
    """Whether the judge is there or will be."""
    out = io.BytesIO()
    work = _Work(setup(folder, baseline=0.5), _Out(out))
    if not late:
        work.expect(Expecting(tuple(candidates(2))))
    work.start()
    work.ask(Baselined())
    while late and ["baseline"] not in log(folder):
        time.sleep(0.01)
    if late:
        work.expect(Expecting(tuple(candidates(2))))
    until = time.monotonic() + PATIENCE
    while ["measured"] not in log(folder) and time.monotonic() < until:
        time.sleep(0.01)
    work.end()
    work.join(PATIENCE)
    said = log(folder)
    assert ["expects", "c0,c1"] in said
    assert said.index(["expects", "c0,c1"]) < said.index(["measured"])


def test_a_lane_s_worker_is_told_without_an_answer(folder: Path) -> None:
    with local_pool(setup(folder, baseline=0.2), ["a"], 1) as pool:
        pool.baseline(first=lambda count: candidates(count))
        verdicts = pool.judge(candidates(2))
    assert [v.candidate for v in verdicts] == ["c0", "c1"]
    assert ["a", "expects", "c0,c1,c2,c3"] in log(folder)


def test_a_lane_that_opens_while_others_work_is_given_work_at_once() -> None:
    began, waited = threading.Event(), list[bool]()

    class Late(ThreadLane):
        def baseline(self, task: Task) -> Baseline:
            time.sleep(0.3)
            return super().baseline(task)

        def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
            began.set()
            super().judge(candidates, told, task)

    class First(ThreadLane):
        def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
            waited.append(began.wait(PATIENCE / 10))
            super().judge(candidates, told, task)

    pool, told = Pool([First("a"), Late("a")]), list[str]()
    pool.baseline()
    pool.stream(candidates(12), lambda _: (), lambda v: told.append(v.candidate))
    assert waited[0] and len(told) == 12


class NotingLane(ThreadLane):
    """Notes how many candidates it is given at a time."""

    given: tuple[int, ...] = ()

    def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
        self.given = (*self.given, len(candidates))
        super().judge(candidates, told, task)


def test_a_lane_takes_no_more_at_a_time_than_it_may() -> None:
    lanes = [NotingLane("a", 0.05) for _ in range(3)]
    Pool(lanes, chunk=2).judge(candidates(16))
    sizes = [size for lane in lanes for size in lane.given]
    assert sum(sizes) == 16 and max(sizes) == 2


class EagerLane(ThreadLane):
    """Says that it has begun, and makes nothing of what it gets."""

    def __init__(self, card: str) -> None:
        super().__init__(card)
        self.begun = threading.Event()

    def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
        del task
        self.begun.set()
        for candidate in candidates:
            told(Verdict(candidate.id, "same", ""))


def test_a_lane_begins_before_anything_is_asked_for_the_next() -> None:
    lanes = [EagerLane("a"), EagerLane("b")]
    fresh = iter(candidates(48))
    told: list[str] = []
    asked: list[bool] = []

    def more(_idle: bool) -> list[Candidate]:
        batch = [c for _, c in zip(range(8), fresh, strict=False)]
        if asked:
            assert any(lane.begun.wait(PATIENCE) for lane in lanes)
        asked.append(True)
        return batch

    Pool(lanes).stream((), more, lambda v: told.append(v.candidate))
    assert sorted(told) == sorted(c.id for c in candidates(48))


def test_counters_are_collected_while_lanes_judge(folder: Path) -> None:
    lanes = [ThreadLane(card, seconds=0.1) for card in ("a", "b")]
    at: list[int] = []

    def judged_so_far() -> int:
        return sum(len(lane.done.judged) for lane in lanes)

    def learn(_kernel: str, task: Task) -> Learned:
        at.append(judged_so_far())
        while judged_so_far() < at[0] + 2:
            task.check()
            time.sleep(0.01)
        at.append(judged_so_far())
        return Learned(headroom=64.0)

    with open_store(folder) as store:
        result = optimize(problem(learn=learn, budget=LONG), Pool(lanes), store)
    assert result.outcome == "faster" and 4 <= at[0] < at[1] and judged_so_far() == 24


@pytest.mark.parametrize("lanes", [1, 2, 0])
def test_a_search_goes_on_without_counters_that_fail(folder: Path, lanes: int) -> None:
    said: list[str] = []

    def learn(_kernel: str, _task: Task) -> Learned:
        raise ToolFailedError("ncu ended with 9", remedy="see its output")

    def heard(message: str, _share: float | None) -> None:
        said.append(message)

    judge = (
        Pool([ThreadLane("a", seconds=0.05) for _ in range(lanes)])
        if lanes
        else ComputedJudge(SourceText(CODE))
    )
    with open_store(folder) as store:
        result = optimize(problem(learn=learn, budget=LONG), judge, store, task=Task(heard))
    assert result.outcome == "faster" and result.spent is not None and result.spent.candidates == 24
    assert sum("without counters" in message for message in said) == 1
    (why,) = [u for u in result.unknown if "counters" in u.what]
    assert why.why == "ncu ended with 9" and not why.failed


def test_counters_that_come_too_late_are_not_waited_for(folder: Path) -> None:
    ended = threading.Event()

    def learn(_kernel: str, task: Task) -> Learned:
        while True:
            if task.token.cancelled:
                ended.set()
            task.check()
            time.sleep(0.01)

    with open_store(folder) as store:
        result = optimize(problem(learn=learn, budget=LONG), Pool([ThreadLane("a")]), store)
    assert result.outcome == "faster" and ended.is_set()


def test_a_search_has_lanes_where_cores_and_candidates_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert search_opener(None) is not open_judge and search_opener(None, candidates=24) is not open_judge
    assert search_opener(None, candidates=16) is open_judge
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert search_opener(None) is open_judge and search_opener(1, candidates=8) is not open_judge


def test_cards_that_are_asked_for_have_a_third_lane_where_cores_are_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[tuple[int, int, int, int]] = []

    def pool(given: Setup, cards: Sequence[str], lanes: int, *, chunk: int) -> None:
        made.append((len(cards), lanes, json.loads(given.payload)["build_jobs"], chunk))

    monkeypatch.setattr(pooled, "local_pool", pool)
    monkeypatch.setattr(pooled, "chosen_cards", lambda count: ["card"] * count)
    work = Workload(str(tmp_path / "k.cu"), str(tmp_path / "k.cu"))
    for cores, cards in ((32, 2), (16, 2), (16, 1), (16, None), (8, None)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        search_opener(cards)(work, "k", "sm_90", Allowed())
    # cards, lanes, compilations and candidates at a time; nobody asked for the last two's card
    assert made == [(2, 3, 8, 8), (2, 2, 4, 8), (1, 3, 8, 8), (1, 3, 8, 6), (1, 2, 4, 8)]


def test_a_workload_that_fails_is_raised_as_by_one_judge(folder: Path) -> None:
    with local_pool(setup(folder, fails=True), ["card-a", "card-b"]) as pool:
        with pytest.raises(InputError, match="exits with 1") as caught:
            pool.baseline()
        assert caught.value.remedy == "make it succeed"


@contextmanager
def cluster(gpus: int) -> Iterator[None]:
    """A real Ray of this machine with declared GPUs."""
    ray = pytest.importorskip("ray")
    environment = {"PYTHONPATH": str(ROOT), "WARPLENS_LOCKS": os.environ["WARPLENS_LOCKS"]}
    ray.init(
        num_cpus=2,
        num_gpus=gpus,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": environment},
    )
    try:
        yield
    finally:
        ray.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_gives_the_same_verdicts_and_retries_what_a_lost_worker_had(folder: Path) -> None:
    work = candidates(12, c5="kills once")
    with cluster(2), ray_pool(setup(folder, measure=0.02), "local") as pool:
        assert pool.baseline().kernel == "scale"
        told: list[str] = []
        over_ray = pool.judge(work, on_verdict=lambda v: told.append(v.candidate))
        assert pool.confirm(work[2]).verdict.state == "faster"
    assert (folder / "died-c5").exists()
    assert set(judged(folder).values()) == {1} and sorted(told) == sorted(c.id for c in work)
    assert len({v.conditions.uuid for v in over_ray if v.conditions is not None}) == 2
    with local_pool(setup(folder), ["card-a", "card-b"]) as pool:
        here = pool.judge(work)
    assert [(v.candidate, v.state) for v in here] == [(v.candidate, v.state) for v in over_ray]
    assert speedups(here) == speedups(over_ray)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_without_cards_is_refused(folder: Path) -> None:
    with cluster(0), pytest.raises(InputError, match="has no GPU"):
        ray_pool(setup(folder), "local")


def test_without_ray_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingToolError, match="Ray is not installed") as caught:
        ray_pool(setup(folder), "local")
    assert "warplens[cluster]" in caught.value.remedy
