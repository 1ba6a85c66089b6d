# SPDX-License-Identifier: Apache-2.0
"""What the search needs of a judge, and how closely it has candidates looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from warplens.agent.search_settings import EQUAL_TIME, Objective
from warplens.agent.versions import Node
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

    def stream(
        self,
        candidates: Sequence[Candidate],
        more: Callable[[bool], Sequence[Candidate]],
        on_verdict: Callable[[Verdict], None],
        *,
        task: Task = ...,
    ) -> None:
        """Judge candidates, and what `more` gives until it gives nothing; it is told whether a card stands idle."""


def held_to_best(
    candidates: Sequence[Candidate], told: Sequence[Node], objective: Objective
) -> list[Candidate]:
    """Candidates with the speedup that each has to beat to be looked at in full: the best so far, or the original's.

    Where energy decides among versions that are as fast, those count that may be as fast as the best; where it decides
    alone, all that are faster than the original.
    """
    best = max(
        (n.speedup or 0.0 for n in told if n.verdict is not None and n.verdict.state == "faster"), default=1.0
    )
    if objective == "lexicographic":
        # either time may be off by half a percent
        best *= 1.0 - 2.0 * EQUAL_TIME
    bar = 1.0 if objective == "energy" else max(1.0, best)
    return [msgspec.structs.replace(candidate, bar=bar) for candidate in candidates]


def scarce(told: int, began: float, left: float, candidates: int) -> bool:
    """Whether the seconds that are left will be over before so many candidates are judged, at the pace since `began`:
    waiting for a verdict then saves nothing. Not before the first verdict.
    """
    taken = time.monotonic() - began
    return told > 0 and taken > 0 and left * told / taken < candidates
