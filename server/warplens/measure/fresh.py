# SPDX-License-Identifier: Apache-2.0
"""A winner's fresh processes, and what they and its comparison on all inputs come to together."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from warplens.measure.build.candidates import Built
from warplens.measure.kernel.gate import pooled
from warplens.measure.kernel.visits import VisitResult, Visits
from warplens.measure.session import PreparedWorkload
from warplens.measure.turn import Turn
from warplens.measure.verdict import Conditions, Verdict
from warplens_tools.evidence import Unknown
from warplens_tools.process.task import Task

#: Names of input sets that a proof gives.
_MOST_NAMED = 6
#: Fresh processes at a time: one has the card, the next one starts, which takes memory and time of the host alone.
_STARTING = 2


class Visited(msgspec.Struct, frozen=True):
    """What one process found, and what was read of the card while it was at work there."""

    heard: VisitResult
    verdict: Verdict
    conditions: Conditions


def in_fresh_processes(opened: PreparedWorkload, built: Built, task: Task) -> list[Visited]:
    """One visit per process, on some inputs drawn anew, up to the first that does not find it right. A process starts
    while the one before has the card."""
    fresh: list[Visited] = []
    with task.branch() as branch, ThreadPoolExecutor(_STARTING) as pool:
        count = opened.session.settings.confirmations
        visiting = [pool.submit(_fresh_one, opened, built, number, branch) for number in range(count)]
        try:
            for visited in visiting:
                fresh.append(visited.result())
                if fresh[-1].heard.result.state != "right":
                    break
        finally:
            branch.token.cancel()
            pool.shutdown(cancel_futures=True)
    return fresh


def _fresh_one(opened: PreparedWorkload, built: Built, number: int, task: Task) -> Visited:
    session = opened.session
    # what it is compared on is a matter of the visit on all inputs; here the card is nobody else's
    visits = Visits(opened.place, session.settings, session.folder, briefly=number > 0)
    with Turn(session, f"confirming {opened.baseline.kernel}", task) as turn:
        return visit_alone(opened, built, visits, turn, task)


def visit_alone(opened: PreparedWorkload, built: Built, visits: Visits, turn: Turn, task: Task) -> Visited:
    """One visit, whose program starts while others have the card. What it says is said with what was read of the card
    in its turn."""
    heards: list[Visited] = []

    def take(heard: VisitResult) -> None:
        conditions = turn.take().now()
        heards.append(Visited(heard, opened.verdict(built, heard, conditions), conditions))

    visits.judge([built.job], take, task, turn)
    return heards[-1]


def not_faster(each: Sequence[Verdict]) -> Verdict | None:
    """The first fresh process's that does not find it faster."""
    odd = next((v for v in each if v.state != "faster"), None)
    if odd is None:
        return None
    words = f"in fresh process {each.index(odd) + 1}: {odd.reason}"
    return msgspec.structs.replace(odd, reason=words)


def heard_together(heards: Sequence[VisitResult], compared: VisitResult) -> VisitResult:
    """The timings of all fresh processes, with how it compared in them and where it was compared on all inputs."""
    every = (compared, *heards)
    ratios = [one.result.error_ratio for one in every]
    result = msgspec.structs.replace(
        compared.result,
        timings=pooled(heards),
        bitwise=all(one.result.bitwise for one in every),
        lowered=any(one.result.lowered for one in every),
        error_ratio=None if None in ratios else max(ratio for ratio in ratios if ratio is not None),
    )
    cases = tuple(dict.fromkeys(name for one in every for name in one.baseline.cases))
    baseline = msgspec.structs.replace(compared.baseline, cases=cases)
    return msgspec.structs.replace(heards[0], baseline=baseline, result=result)


def not_compared(heard: VisitResult, fresh: Sequence[VisitResult]) -> list[Unknown]:
    """Sets of inputs that there was no time or memory for, and those that the kernel itself did not stand, in no
    process."""
    compared = {name for one in (heard, *fresh) for name in one.baseline.cases}
    found = []
    for what, tried in (
        ("results on inputs that there was no time or memory for", heard.baseline.skipped),
        ("results on inputs under which the kernel itself crashed or hung", heard.given_up),
    ):
        names = [name for name in tried if name not in compared]
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        if names:
            found.append(Unknown(what, f"{len(names)} sets: {', '.join(names[:_MOST_NAMED])}{more}"))
    return found


def of_each(verdict: Verdict, each: Sequence[Verdict]) -> Verdict:
    """The verdict on all of them, with what each found by itself."""
    ratios = ", ".join(f"{t.speedup.median:.3f}" for v in each for t in v.timings[:1])
    reason = f"{verdict.reason}; in each of {len(each)} fresh processes: {ratios}"
    return msgspec.structs.replace(verdict, reason=reason)
