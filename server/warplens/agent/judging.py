# SPDX-License-Identifier: Apache-2.0
"""What the search needs of a judge, and how closely it has candidates looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from warplens.agent.search_settings import EQUAL_TIME, Objective
from warplens.agent.versions import Node
from warplens.measure.judge import Baseline
from warplens.measure.measures import Measures
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.process.task import Task


class JudgeSession(Measures, Protocol):
    """What the loop needs of `warplens.measure.judge.Judge`."""

    def confirmation_seconds(self) -> float:
        """How long a confirmation may take at most."""


@runtime_checkable
class StreamingJudge(Protocol):
    """A judge of several lanes, such as `warplens.measure.pool`: it asks for more while it still judges."""

    def baseline(self, *, task: Task = ..., first: Callable[[int], Sequence[Candidate]] = ...) -> Baseline:
        """Measure the user's version; meanwhile `first` gives so many candidates that are likely judged first."""

    def stream(
        self,
        candidates: Sequence[Candidate],
        more: Callable[[bool], Sequence[Candidate]],
        on_verdict: Callable[[Verdict], None],
        *,
        task: Task = ...,
        meanwhile: Callable[[], bool] = ...,
    ) -> None:
        """Judge candidates, and what `more` gives until it gives nothing; it is told whether a card stands idle.
        `meanwhile` does a little of what is to be done while nothing is heard, and says whether it had anything to do.
        """


#: A look in full takes the time of many brief ones, so what is hardly better than the best gets none: so much more,
#: beside the half percent that the probe asks for. What a search forgoes by it is no more than that, since the bar
#: stays where it is until one beats it. Not where all that there is is a gain below the second.
WORTH_A_LOOK, SMALL_GAIN = 1.015, 1.1


def held_to_best(
    candidates: Sequence[Candidate], told: Sequence[Node], objective: Objective
) -> list[Candidate]:
    """Candidates with the speedup that each has to beat to be looked at in full: the best so far and what is worth the
    look, or the original's.

    Where energy decides among versions that are as fast, those count that may be as fast as the best; where it decides
    alone, all that are faster than the original.
    """
    faster = [n.speedup or 0.0 for n in told if n.verdict is not None and n.verdict.state == "faster"]
    bar = max(faster, default=1.0)
    if objective == "lexicographic":
        # either time may be off by half a percent
        bar *= 1.0 - 2.0 * EQUAL_TIME
    elif objective == "energy":
        bar = 1.0
    elif bar >= SMALL_GAIN:
        bar *= WORTH_A_LOOK
    return [msgspec.structs.replace(candidate, bar=max(1.0, bar)) for candidate in candidates]


#: Candidates a second that nobody has yet seen a search on one card judge for long: no program of the sealed suites was
#: searched at more than 1.7 (`docs/benchmarks/suite_sealed_fourth.json`).
FAST = 2.0


def scarce(told: int, began: float, left: float, candidates: int) -> bool:
    """Whether the seconds that are left will be over before so many candidates are judged, at the pace since `began`,
    or at a fast one before the first verdict: waiting for a verdict then saves nothing.
    """
    taken = time.monotonic() - began
    return left * (told / taken if told and taken > 0 else FAST) < candidates
