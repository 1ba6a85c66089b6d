# SPDX-License-Identifier: Apache-2.0
"""Which of a visit's candidates are looked at in full: those that beat the best so far.

A look in full takes seconds (dozens of sets of inputs, timings of each kind), and most candidates of a search are no
better than what it has. So all are visited briefly first, and only those ahead of their bar a second time, the fastest
first: what comes after it has to beat it, too. Nothing is offered of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from warplens.measure.build.candidates import Built
from warplens.measure.kernel.visits import IN_FULL, CardTurn, Look, VisitResult, Visits
from warplens_tools.process.task import Task


def bar_of(built: Sequence[Built]) -> float:
    """What all of them are held to: the highest of their bars, as the latest known. 0 where one has none."""
    bars = [one.candidate.bar for one in built]
    return max(bars) if bars and all(bars) else 0.0


def visited(
    visits: Visits,
    built: Sequence[Built],
    on_heard: Callable[[VisitResult], None],
    task: Task,
    turn: CardTurn,
) -> None:
    """Hear of every candidate, of each as closely as it deserves.

    Raises:
        as `Visits.judge`.
    """
    bar = bar_of(built) if visits.may_sift else 0.0
    if not bar:
        visits.judge([one.job for one in built], on_heard, task, turn, IN_FULL)
        return
    ahead: dict[str, VisitResult] = {}

    def sift(heard: VisitResult) -> None:
        if heard.result.state == "right":
            ahead[heard.result.candidate] = heard
        else:
            on_heard(heard)

    def again(heard: VisitResult) -> None:
        on_heard(with_cost_of(ahead[heard.result.candidate], heard))

    visits.judge([one.job for one in built], sift, task, turn, Look(bar, sifts=True))
    jobs = {one.candidate.id: one.job for one in built}
    fastest_first = sorted(ahead, key=lambda name: -ahead[name].result.speedup)
    if fastest_first:
        visits.judge([jobs[name] for name in fastest_first], again, task, turn, Look(bar, at_once=True))


def with_cost_of(first: VisitResult, heard: VisitResult) -> VisitResult:
    """What was heard of a candidate, with what hearing of it before has cost."""
    before, result = first.result, heard.result
    names = dict.fromkeys((*first.shared, *heard.shared))
    return msgspec.structs.replace(
        heard,
        shared={name: first.shared.get(name, 0.0) + heard.shared.get(name, 0.0) for name in names},
        result=msgspec.structs.replace(
            result,
            load_seconds=before.load_seconds + result.load_seconds,
            right_seconds=before.right_seconds + result.right_seconds,
            timing_seconds=before.timing_seconds + result.timing_seconds,
        ),
    )
