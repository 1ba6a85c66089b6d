# SPDX-License-Identifier: Apache-2.0
"""The loop: outcome and proof, budget, journal, resume after a kill, control, no GPU."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.patience import PATIENCE
from tests.server.agent.doubles import CODE, ComputedJudge, NoGpu, problem
from tests.server.agent.snippets import LIMITS

from warplens.agent.actions import KernelSpace
from warplens.agent.judging import held_to_best
from warplens.agent.moves import Move
from warplens.agent.priors import Cause
from warplens.agent.report import unproven
from warplens.agent.result import OptimizeResult
from warplens.agent.search_loop import optimize
from warplens.agent.search_settings import Budget
from warplens.agent.versions import Ask, Node
from warplens.agent.winners import CONFIRMATIONS, akin, unlike
from warplens.measure.judge import Confirmation
from warplens.measure.verdict import Candidate, Verdict
from warplens.store.database import open_store
from warplens.store.rates import hit_rates
from warplens.store.runs import list_runs, read_steps
from warplens_tools.errors import CancelledError, MissingToolError
from warplens_tools.finding import Gain
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.text import SourceText

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with open_store(tmp_path) as connection:
        yield connection


def run(store: sqlite3.Connection, **fields: object) -> tuple[OptimizeResult, ComputedJudge]:
    judge = ComputedJudge(SourceText(CODE))
    return optimize(problem(**fields), judge, store), judge  # type: ignore[arg-type]


def test_the_best_version_is_found_confirmed_and_shown_with_its_proof(store: sqlite3.Connection) -> None:
    result, judge = run(store)
    assert result.outcome == "faster"
    assert result.diff.startswith("--- a/k.cu\n+++ b/k.cu\n")
    assert "+#define BLOCK 128" in result.diff and "+#pragma unroll 4" in result.diff
    assert SourceText(CODE).apply(list(result.edits)).text.count("\n") == CODE.count("\n")
    assert result.proof is not None and result.proof.verdict.state == "faster"
    assert [unknown.what for unknown in result.unknown] == ["races in global memory"]
    assert judge.confirmed
    changed = {c.metric: (c.before, c.after) for c in result.proof.changes}
    assert changed["kernel time"][0] > changed["kernel time"][1]
    assert result.conditions is not None and result.baseline is not None
    assert (
        result.spent is not None and result.spent.candidates == len(judge.judged) == len(result.tried) <= 24
    )


def test_a_candidate_that_fails_its_confirmation_is_not_called_faster(store: sqlite3.Connection) -> None:
    judge = ComputedJudge(SourceText(CODE))
    judge.confirms = False
    result = optimize(problem(), judge, store)
    assert result.outcome == "nothing" and result.diff == "" and result.proof is None
    assert 1 < len(judge.confirmed) <= CONFIRMATIONS
    assert "nothing faster" in result.reason
    fell = [one for one in result.tried if one.id in judge.confirmed]
    assert fell and all(one.reason == "when measured again: it prints other text" for one in fell)
    assert {one.state for one in fell} == {"wrong"} and "wrong" in result.reason
    assert result.reason.endswith("did not hold when measured again: it prints other text")


def _made_by(parent: Node | None, *changes: str) -> Node:
    move = Move(changes, "rule", "title")
    return Node(
        Ask(Candidate("-".join(changes), "/k.cu", "scale", ()), move), SourceText(CODE), parent=parent
    )


def test_what_extends_a_version_that_did_not_hold_is_measured_after_what_does_not() -> None:
    root = _made_by(None)
    warp, block = _made_by(root, "warp"), _made_by(root, "block")
    more, other = _made_by(warp, "unroll=4"), _made_by(block, "unroll=4")
    assert unlike([], [more, warp, other]) is more
    assert unlike([warp], [more, other]) is other
    assert unlike([warp], [more, other, block]) is other
    assert unlike([warp, block], [more, other]) is more, "where all extend one, the best comes"
    assert unlike([more], [warp]) is warp
    assert unlike([more, other], [_made_by(root, "unroll=4"), warp]) is warp, "both had the number"


def test_who_fails_ends_those_that_differ_in_numbers_alone() -> None:
    root = _made_by(None)
    warp = _made_by(root, "warp")
    one, other = _made_by(warp, "block.x=128"), _made_by(warp, "block.x=64")
    assert akin(one, other) and not akin(one, warp) and not akin(one, _made_by(root, "block.x=64"))


class Barred(ComputedJudge):
    """Looks at nothing in full that is not better than its bar; what `gone` names does not hold in full."""

    def __init__(self, *, gone: str = "") -> None:
        super().__init__(SourceText(CODE))
        self.bars: list[float] = []
        self.in_full = 0
        self._gone = gone

    def _verdict(self, candidate: Candidate) -> Verdict:
        verdict = super()._verdict(candidate)
        self.bars += [candidate.bar] if candidate.bar else []
        speedup = verdict.timings[0].speedup.median if verdict.timings else 0.0
        if speedup and candidate.bar and speedup <= candidate.bar:
            return msgspec.structs.replace(verdict, state="provisional")
        self.in_full += bool(speedup)
        return verdict

    def confirm(self, candidate: Candidate, *, task: Task = UNATTENDED) -> Confirmation:
        self.confirms = not self._gone or self._gone not in self.text.apply(list(candidate.edits)).text
        return super().confirm(msgspec.structs.replace(candidate, bar=0.0), task=task)


def test_candidates_are_held_to_the_best_so_far(store: sqlite3.Connection) -> None:
    judge = Barred()
    result = optimize(problem(), judge, store)
    assert judge.bars[0] == 1.0 and judge.bars == sorted(judge.bars) and judge.bars[-1] > 1.3
    assert judge.in_full < len(judge.judged) / 2
    # the same winner as where all are looked at in full
    full, _ = run(store)
    assert result.outcome == "faster" and result.diff == full.diff


def test_where_the_best_does_not_hold_what_was_behind_it_is_confirmed_and_never_taken_on_trust(
    store: sqlite3.Connection,
) -> None:
    judge = Barred(gone="unroll 4")
    result = optimize(problem(), judge, store)
    assert result.outcome == "faster" and "unroll 4" not in result.diff
    assert result.proof is not None and result.proof.verdict.state == "faster"
    assert len(judge.confirmed) > 1
    provisional = [one for one in result.tried if one.state == "provisional"]
    assert provisional, "which ones were not looked at in full is said"


def test_what_energy_may_choose_among_is_held_to_less() -> None:
    best, slow = _made_by(None), _made_by(None)
    best.verdict, best.speedup = Verdict("a", "faster", ""), 2.0
    slow.verdict, slow.speedup = Verdict("b", "provisional", ""), 3.0
    asked = [Candidate("c", "/k.cu", "scale", ())]
    bars = [
        held_to_best(asked, [best, slow], objective)[0].bar
        for objective in ("time", "lexicographic", "energy")
    ]
    # for time alone what is hardly better is not worth the look, unless all that there is is a small gain
    assert bars == [pytest.approx(2.03), pytest.approx(1.96), 1.0]
    best.speedup = 1.05
    assert held_to_best(asked, [best, slow], "time")[0].bar == 1.05
    assert held_to_best(asked, [], "lexicographic")[0].bar == 1.0


def test_where_the_best_do_not_hold_the_next_is_the_winner(store: sqlite3.Connection) -> None:
    class Refusing(ComputedJudge):
        """Whatever has BLOCK 128 does not hold."""

        def confirm(self, candidate: Candidate, *, task: Task = UNATTENDED) -> Confirmation:
            text = self.text.apply(list(candidate.edits)).text
            self.confirms = "BLOCK 128" not in text
            return super().confirm(candidate, task=task)

    result = optimize(problem(), Refusing(SourceText(CODE)), store)
    assert result.outcome == "faster" and "BLOCK 128" not in result.diff


def test_a_kernel_with_nothing_to_tune_is_said_so(store: sqlite3.Connection) -> None:
    code = "__global__ void scale(float* x) { x[0] = 1; }\nint main() { scale<<<1, 1>>>(0); }\n"
    result = optimize(problem(code), ComputedJudge(SourceText(code)), store)
    assert result.outcome == "nothing" and "nothing to try" in result.reason
    assert result.spent is not None and result.spent.stopped == "exhausted"


@pytest.mark.parametrize("candidates", [1, 5, 9])
def test_no_more_candidates_are_judged_than_the_budget_has(
    store: sqlite3.Connection, candidates: int
) -> None:
    result, judge = run(store, budget=Budget(candidates=candidates, batch=4))
    assert len(judge.judged) == candidates
    assert result.spent is not None and result.spent.stopped == "budget"


def test_the_search_ends_when_time_is_up(store: sqlite3.Connection) -> None:
    judge = ComputedJudge(SourceText(CODE), after=lambda _: time.sleep(0.05))
    result = optimize(problem(budget=Budget(candidates=500, seconds=0.1, batch=1)), judge, store)
    assert result.spent is not None and result.spent.stopped == "time"
    assert len(judge.judged) < 6


def test_the_search_ends_at_the_roof(store: sqlite3.Connection) -> None:
    result, judge = run(store, headroom=lambda _: 1.1)
    assert result.spent is not None and result.spent.stopped == "roof"
    assert len(judge.judged) < 24


def test_chance_gets_the_same_budget(store: sqlite3.Connection) -> None:
    result, judge = run(store, control=True, budget=Budget(candidates=10, batch=5))
    assert result.control is not None and result.control.tried == 10
    assert len(judge.judged) == 20
    assert [r.outcome for r in list_runs(store)] == ["control", "faster"]


def test_each_step_credits_its_rule_and_the_finding_behind_it(store: sqlite3.Connection) -> None:
    cause = Cause("WL105", "occupancy-block-size", "scale", "high", Gain(1.3, 1.0, 2.0))
    result, _ = run(store, causes=[cause])
    rates = {(r.kind, r.subject): r for r in hit_rates(store)}
    block = rates[("rule", "parameter:block")]
    assert 0 < block.hits < block.trials
    assert block.mean_predicted == pytest.approx(1.3)
    assert rates[("tool", "WL105")].trials >= block.trials
    assert rates[("rule", "parameter:unroll")].trials > 0
    assert result.proof is not None and result.proof.answers == ("WL105",)


def test_the_journal_holds_every_ask_and_verdict(store: sqlite3.Connection) -> None:
    result, judge = run(store)
    assert result.run is not None
    kinds = [step.kind for step in read_steps(store, result.run)]
    assert kinds[0] == "baseline" and kinds[-1] == "confirm"
    assert kinds.count("ask") == kinds.count("tell") == len(judge.judged)
    (listed,) = list_runs(store)
    assert (listed.outcome, listed.gpu) == ("faster", "a test double")
    assert listed.speedup is not None and listed.speedup > 1.2


def test_a_run_is_gone_on_with_and_pays_for_nothing_twice(store: sqlite3.Connection) -> None:
    _, first = run(store, budget=Budget(candidates=8, batch=4))
    again, second = run(store, budget=Budget(candidates=16, batch=4), resume=True)
    assert again.spent is not None and again.spent.resumed == 8
    assert len(second.judged) == 8
    assert not set(first.judged) & set(second.judged)
    assert len(list_runs(store)) == 1


def test_another_card_shares_no_verdicts(store: sqlite3.Connection) -> None:
    run(store, budget=Budget(candidates=8, batch=4))
    judge = ComputedJudge(SourceText(CODE))
    judge.uuid = "GPU-1"
    result = optimize(problem(resume=True, budget=Budget(candidates=8, batch=4)), judge, store)
    assert result.spent is not None and result.spent.resumed == 0


def test_a_cancelled_run_keeps_its_verdicts(store: sqlite3.Connection) -> None:
    token = CancelToken()
    judge = ComputedJudge(SourceText(CODE), after=lambda count: token.cancel() if count == 6 else None)
    with pytest.raises(CancelledError):
        optimize(problem(), judge, store, task=Task(token=token))
    (listed,) = list_runs(store)
    assert listed.outcome == "cancelled"
    result, second = run(store, resume=True)
    assert result.spent is not None and result.spent.resumed == 6
    assert not set(judge.judged) & set(second.judged)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.server.agent.doubles import CODE, ComputedJudge, problem
from warplens.agent.search_loop import optimize
from warplens.store.database import open_store
from warplens_tools.text import SourceText
def after(count):
    print(judge.judged[-1], flush=True)
    if count == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
judge = ComputedJudge(SourceText(CODE), after)
with open_store(Path(sys.argv[1])) as store:
    optimize(problem(), judge, store)
"""


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(verdicts=st.integers(1, 20))
@pytest.mark.thorough
def test_a_killed_process_loses_no_verdict_and_the_search_goes_on_alike(
    tmp_path_factory: pytest.TempPathFactory, verdicts: int
) -> None:
    folder = tmp_path_factory.mktemp("killed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(verdicts)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    paid = process.stdout.split()
    assert len(paid) == verdicts
    with open_store(folder) as store:
        resumed, judge = run(store, resume=True)
    with open_store(folder / "whole") as store:
        whole, reference = run(store)
    assert resumed.spent is not None and resumed.spent.resumed == verdicts
    assert paid + judge.judged == reference.judged
    assert resumed.edits == whole.edits


def test_without_a_gpu_edits_are_offered_unproven_with_the_reason() -> None:
    cause = Cause("WL105", "occupancy-block-size", "scale", "high", Gain(1.5, 1.0, 2.0))
    judge = NoGpu(SourceText(CODE))
    with pytest.raises(MissingToolError) as caught:
        judge.baseline()
    one = problem(causes=[cause])
    space = KernelSpace(one.text, path=one.path, kernel="scale", limits=LIMITS, causes=[cause])
    result = unproven(one, [space], caught.value)
    assert (result.outcome, result.kernel) == ("unproven", "scale")
    assert "no CUDA GPU" in result.reason and result.remedy
    assert result.offers and all(offer.status == "unproven" for offer in result.offers)
    assert result.offers[0].answers == ("WL105",)
    expected = [offer.probability * (offer.gain - 1) for offer in result.offers]
    assert expected[0] == max(expected)
    for offer in result.offers:
        assert SourceText(CODE).apply(list(offer.edits)).text != CODE


def test_the_answer_survives_the_wire(store: sqlite3.Connection) -> None:
    result, _ = run(store, control=True)
    assert msgspec.json.decode(msgspec.json.encode(result), type=OptimizeResult) == result
