# SPDX-License-Identifier: Apache-2.0
"""The loop: ask the search, judge in batches, tell, write down; then confirm the best."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from warplens import __version__
from warplens.agent.counting import Counting
from warplens.agent.edits import text_hash
from warplens.agent.energy_search import SHARE, around, for_time
from warplens.agent.journal import Journal
from warplens.agent.judging import JudgeSession, StreamingJudge, held_to_best, scarce
from warplens.agent.policies import PolicyName
from warplens.agent.problem import Learned, Problem
from warplens.agent.report import control_of, nothing_found, proven, tried
from warplens.agent.result import OptimizeResult, Outcome, Spent
from warplens.agent.searcher import Searcher
from warplens.agent.versions import Node, SearchedSpace, best_first
from warplens.agent.winners import Winners
from warplens.measure.exchange import AwaitingError
from warplens.measure.judge import Baseline, Confirmation
from warplens.measure.verdict import Candidate, Verdict
from warplens.store.runs import Target, adopt_run, find_run, finish_run, start_run
from warplens_tools.errors import CancelledError, TimeLimitError, WarplensError
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import UNATTENDED, Task

#: What collecting counters takes: Nsight Compute's own start and report (6 s on an H200's host for a program of 0.5 s),
#: and the program's runs, slowed down by replay.
COUNTING_SECONDS, COUNTING_RUNS = 6.0, 3.0
#: Counters are collected where the time that is left is this many times theirs. They order the later steps, and cost
#: as much as judging a dozen.
COUNTING_SHARE = 8.0
Stopped = Literal["budget", "time", "roof", "exhausted"]


def optimize(
    problem: Problem, judge: JudgeSession, store: sqlite3.Connection, *, task: Task = UNATTENDED
) -> OptimizeResult:
    """Search, judge, confirm.

    The budget's seconds hold for everything up to the confirmations, each of which says its own bound.

    Raises:
        MissingToolError: nothing can be measured here; see `report.unproven`.
        TimeLimitError: the time was over before the baseline was measured.
        WarplensError: the program fails, never launches the kernel, or is cancelled.
    """
    started = time.monotonic() if problem.started is None else problem.started
    task.say("measuring the baseline", None)
    baseline = None
    with task.within(_left(problem, started)) as limit:
        try:
            if isinstance(judge, StreamingJudge):
                baseline = judge.baseline(task=limit, first=lambda count: problem.first(count, limit))
            else:
                baseline = judge.baseline(task=limit)
        except AwaitingError as error:
            raise AwaitingError([*error.waiting, *_begun(problem, judge, limit)]) from None
    if baseline is None:
        raise TimeLimitError(
            f"the {problem.budget.seconds:g} s were over before the baseline was measured",
            remedy="give it more time by --seconds, or the program less work by its arguments",
        )
    problem.measured(baseline)
    loop = _Loop(problem, judge, store, baseline, task)
    found = loop.run(problem.search, _left(problem, started))
    winner = loop.confirm(found)
    control = loop.run("random", problem.budget.seconds) if problem.control else None
    outcome: Outcome = "faster" if winner is not None else "nothing"
    result = OptimizeResult(
        version=1,
        tool=f"warplens {__version__}",
        path=problem.path,
        kernel=baseline.kernel,
        outcome=outcome,
        reason=nothing_found(found.nodes, found.spent.stopped, loop.fell),
        baseline_hash=text_hash(problem.text),
        name=problem.name,
        baseline=baseline.timing,
        conditions=baseline.conditions,
        tried=tried(found.nodes, loop.fell),
        spent=found.spent,
        control=control_of(control.nodes) if control is not None else None,
        unknown=(*baseline.unknown, *loop.uncounted),
        run=found.journal.run,
        seed=problem.seed,
    )
    if winner is not None:
        node, confirmation = winner
        result = proven(result, problem.text, node, confirmation, baseline, found.space.limits)
    loop.finish(found, result)
    return result


def _begun(problem: Problem, judge: JudgeSession, task: Task) -> tuple[str, ...]:
    """Ask a judge elsewhere for the first candidates beside the baseline; what waits for an answer of whomever.

    Nothing of the baseline goes into them, so the search asks for the same again when it is there.
    """
    if not problem.kernel:
        return ()
    budget = problem.budget
    try:
        searcher = problem.searcher(problem.search, problem.kernel, problem.space(problem.kernel), None)
        asks = searcher.ask(min(budget.batch, budget.candidates), task)
        judge.judge([ask.candidate for ask in asks], task=task)
    except AwaitingError as error:
        return error.waiting
    return ()


def _left(problem: Problem, started: float) -> float:
    """Seconds of the budget that are left."""
    return problem.budget.seconds - (time.monotonic() - started)


class _Found(msgspec.Struct):
    """What one search came to."""

    searcher: Searcher
    journal: Journal
    space: SearchedSpace
    spent: Spent

    @property
    def nodes(self) -> list[Node]:
        return self.searcher.versions.told()

    @property
    def best(self) -> list[Node]:
        return best_first(self.nodes)


class _Loop:
    """One `optimize` call: the parts every step needs."""

    def __init__(
        self, problem: Problem, judge: JudgeSession, store: sqlite3.Connection, baseline: Baseline, task: Task
    ) -> None:
        self.problem, self.judge, self.store = problem, judge, store
        self.baseline, self.task = baseline, task
        self._learned = Learned()
        #: What was said of versions that did not hold when they were measured again, by candidate.
        self.fell: dict[str, Verdict] = {}
        #: Why there are no counters, where collecting them failed.
        self.uncounted: tuple[Unknown, ...] = ()

    def run(self, strategy: PolicyName, seconds: float) -> _Found:
        """One search to the end of its budget, or of `seconds`. However it ends, what was told stays in the journal."""
        space = self.problem.space(self.baseline.kernel)
        searcher = self.problem.searcher(strategy, self.baseline.kernel, space, self._headroom())
        journal, resumed = self._journal(strategy, searcher, space.features)
        started = time.monotonic()
        try:
            stopped: Stopped = "time"
            energy = self._for_energy(strategy)
            with self.task.within((1.0 - SHARE) * seconds if energy else seconds) as limit:
                stopped = self._spend(strategy, searcher, journal, space, limit)
            if energy:
                with self.task.within(seconds - (time.monotonic() - started)) as limit:
                    self._equals(searcher, journal, limit)
        except BaseException as error:
            ended = "cancelled" if isinstance(error, CancelledError | KeyboardInterrupt) else "failed"
            ended = "waiting" if isinstance(error, AwaitingError) else ended
            finish_run(self.store, journal.run, outcome=ended, speedup=None)
            raise
        spent = Spent(len(searcher.versions.told()), time.monotonic() - started, resumed, stopped)
        found = _Found(searcher, journal, space, spent)
        if strategy != self.problem.search:
            best = found.best
            speedup = best[0].speedup if best else None
            finish_run(self.store, journal.run, outcome="control", speedup=speedup)
        return found

    def confirm(self, found: _Found) -> tuple[Node, Confirmation] | None:
        """The best version that holds when it is measured again; of several, the one that takes least energy."""
        winners = Winners(
            self.judge,
            self.problem.objective,
            self.fell,
            found.searcher,
            found.journal,
            self.baseline.timing.grid,
        )
        return winners.confirmed(found.best, self.task)

    def finish(self, found: _Found, result: OptimizeResult) -> None:
        """Close the run with its outcome."""
        timings = result.proof.verdict.timings if result.proof is not None else ()
        speedup = timings[0].speedup.median if timings else None
        finish_run(self.store, found.journal.run, outcome=result.outcome, speedup=speedup)

    def _journal(
        self, strategy: PolicyName, searcher: Searcher, features: Mapping[str, float]
    ) -> tuple[Journal, int]:
        """A run to write to: the one to go on with where that is asked for and there is one, else a new one."""
        conditions, arch = self.baseline.conditions, self.baseline.compiled.arch
        card = f"{self.problem.workload}\n{conditions.uuid}\n{conditions.driver}\n{conditions.cuda}\n{arch}"
        target = Target(
            path=self.problem.path,
            kernel=self.baseline.kernel,
            baseline_hash=text_hash(self.problem.text),
            workload_hash=hashlib.sha256(card.encode()).hexdigest(),
            strategy=strategy,
            seed=self.problem.seed,
        )
        earlier = find_run(self.store, target) if self.problem.resume else None
        if earlier is not None and adopt_run(self.store, earlier.id):
            journal = Journal(self.store, earlier.id, arch=arch, features=features)
            return journal, journal.replay(searcher)
        settings = msgspec.json.encode(
            {"search": self.problem.settings, "budget": self.problem.budget}
        ).decode()
        run = start_run(self.store, target, settings=settings, gpu=conditions.gpu, driver=conditions.driver)
        journal = Journal(self.store, run, arch=arch, features=features)
        journal.began(self.baseline, self.problem.text.text)
        return journal, 0

    def _spend(
        self, strategy: PolicyName, searcher: Searcher, journal: Journal, space: SearchedSpace, limit: Task
    ) -> Stopped:
        budget, learned = self.problem.budget, strategy == "random" or self.problem.learn is None
        most = for_time(budget) if self._for_energy(strategy) else budget.candidates
        if isinstance(self.judge, StreamingJudge):
            return self._stream(self.judge, searcher, journal, space, limit, most, counts=not learned)
        batch = budget.batch_for(self.baseline.program.seconds)
        asks = [node.ask for node in searcher.versions.waiting()]
        while True:
            told = len(searcher.versions.told())
            limit.check()
            if told >= most or self._at_the_roof(searcher):
                return self._end(searcher, most)
            if not asks:
                asks = searcher.ask(min(batch, most - told), limit)
                journal.asked(asks)
            if not asks:
                return "exhausted"
            self._judge(searcher, journal, [ask.candidate for ask in asks], limit)
            asks = []
            if not learned and len(searcher.versions.told()) < most and self._worth_counting(limit):
                self._guide(self._counted(limit), searcher, space)
            learned = True

    def _stream(
        self,
        judge: StreamingJudge,
        searcher: Searcher,
        journal: Journal,
        space: SearchedSpace,
        limit: Task,
        most: int,
        *,
        counts: bool,
    ) -> Stopped:
        """Search with a judge of several lanes: nothing that it does waits for anything but a candidate to judge.

        Where the policy ended a batch for its verdicts' sake, no more is asked before one comes, unless a card has
        nothing to do, or seconds are scarcer than candidates.
        """
        batch, began = self.problem.budget.batch_for(self.baseline.program.seconds), time.monotonic()
        with Counting(self._counted, limit) as counting:

            def more(idle: bool) -> Sequence[Candidate]:
                told = len(searcher.versions.told())
                if counts and not counting.begun and told >= min(batch, most) and self._worth_counting(limit):
                    counting.begin()
                self._guide(counting.take(), searcher, space)
                # without the user's own version
                left = most - (len(searcher.versions.by_id) - 1)
                holds = searcher.holds and not idle and not scarce(told, began, limit.left(), left)
                if left < 1 or self._at_the_roof(searcher) or holds:
                    return ()
                asks = searcher.ask(min(batch if told else self.problem.budget.first_batch, left), limit)
                journal.asked(asks)
                return self._held(searcher, [ask.candidate for ask in asks])

            begun = self._held(searcher, [node.ask.candidate for node in searcher.versions.waiting()])
            told = self._telling(searcher, journal)
            judge.stream(begun, more, told, task=limit.part(), meanwhile=searcher.prepare)
        return self._end(searcher, most)

    def _end(self, searcher: Searcher, most: int) -> Stopped:
        if len(searcher.versions.told()) >= most:
            return "budget"
        if self._at_the_roof(searcher):
            return "roof"
        # a judge of several lanes begins nothing that would not end in time
        return "time" if searcher.versions.waiting() or not searcher.exhausted else "exhausted"

    def _for_energy(self, strategy: PolicyName) -> bool:
        """Whether a part of the budget goes to versions that differ from the fastest in energy alone."""
        return self.problem.objective == "lexicographic" and strategy == self.problem.search

    def _equals(self, searcher: Searcher, journal: Journal, limit: Task) -> None:
        """Judge what one further step makes of the fastest version, with what is left of the budget."""
        asks = [node.ask for node in searcher.versions.waiting()]
        left = self.problem.budget.candidates - (len(searcher.versions.by_id) - 1)
        best = best_first(searcher.versions.told())
        fresh = around(searcher, best[0], left, limit) if best else []
        journal.asked(fresh)
        if asks or fresh:
            self._judge(searcher, journal, [ask.candidate for ask in (*asks, *fresh)], limit)

    def _worth_counting(self, limit: Task) -> bool:
        """Whether collecting counters takes a small part of the time that is left."""
        cost = COUNTING_SECONDS + COUNTING_RUNS * self.baseline.program.seconds
        return limit.left() > COUNTING_SHARE * cost

    def _counted(self, task: Task) -> Learned:
        """What the counters say. They guide the search and prove nothing: it goes on without them, and says so."""
        assert self.problem.learn is not None
        try:
            return self.problem.learn(self.baseline.kernel, task)
        except CancelledError:
            raise
        except WarplensError as error:
            self.task.say(f"the search goes on without counters: {error}", None)
            self.uncounted = (Unknown("what the hardware counters say", str(error), error.remedy),)
            return Learned()

    def _guide(self, learned: Learned | None, searcher: Searcher, space: SearchedSpace) -> None:
        """Let what the counters say, if that is known, guide what is asked from here on."""
        if learned is None:
            return
        self._learned = learned
        space.learn(learned.causes, learned.busy)
        searcher.headroom = self._headroom()
        searcher.versions.reconsider()

    def _judge(self, searcher: Searcher, journal: Journal, candidates: list[Candidate], limit: Task) -> None:
        told = self._telling(searcher, journal)
        held = self._held(searcher, candidates)
        for verdict in self.judge.judge(held, task=limit.part(), on_verdict=told):
            told(verdict)

    def _held(self, searcher: Searcher, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Candidates that are looked at in full only where they beat what there is."""
        return held_to_best(candidates, searcher.versions.told(), self.problem.objective)

    def _telling(self, searcher: Searcher, journal: Journal) -> Callable[[Verdict], None]:
        """Takes verdicts as they are known, each once."""

        def told(verdict: Verdict) -> None:
            node = searcher.versions.by_id[verdict.candidate]
            if node.told:
                return
            journal.told(node, verdict)
            searcher.tell(verdict.candidate, verdict)
            self.task.say(*self._standing(searcher))

        return told

    def _headroom(self) -> float | None:
        return self._learned.headroom or self.problem.headroom(self.baseline)

    def _standing(self, searcher: Searcher) -> tuple[str, float]:
        """What was judged, the best so far, what is tried next, and why."""
        nodes, waiting = searcher.versions.told(), searcher.versions.waiting()
        best = best_first(nodes)
        leader = f", best {best[0].speedup:.2f}x ({best[0].ask.candidate.title})" if best else ""
        trying = ""
        if waiting:
            move = waiting[0].ask.move
            trying = f"; trying {move.title}" + (f", which {move.why}" if move.why else "")
        most = self.problem.budget.candidates
        return f"judged {len(nodes)} of {most}{leader}{trying}", min(1.0, len(nodes) / most)

    def _at_the_roof(self, searcher: Searcher) -> bool:
        """Whether the best version runs at the roof, as far as the ceilings are known."""
        headroom = self._headroom()
        best = best_first(searcher.versions.told())
        if headroom is None or headroom <= 1.0 or not best or not best[0].speedup:
            return False
        return best[0].speedup >= self.problem.settings.roof_share * headroom
