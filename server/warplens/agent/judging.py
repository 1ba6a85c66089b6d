# SPDX-License-Identifier: Apache-2.0
"""What the search needs of a judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

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
