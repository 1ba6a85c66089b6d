# SPDX-License-Identifier: Apache-2.0
"""What the search needs of a judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from warplens.measure.judge import Baseline, Confirmation
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.process.task import Task


class JudgeSession(Protocol):
    """What the loop needs of `warplens.measure.judge.Judge`."""

    def baseline(self, *, task: Task = ...) -> Baseline:
        """Measure the user's version."""

    def judge(
        self,
        candidates: Sequence[Candidate],
        *,
        task: Task = ...,
        on_verdict: Callable[[Verdict], None] | None = ...,
    ) -> tuple[Verdict, ...]:
        """One verdict per candidate."""

    def confirm(self, candidate: Candidate, *, task: Task = ...) -> Confirmation:
        """Measure a winner again."""

    def confirmation_seconds(self) -> float:
        """How long that may take at most."""


@runtime_checkable
class StreamingJudge(Protocol):
    """A judge of several lanes, such as `warplens.measure.pool`: it asks for more while it still judges."""

    def stream(
        self,
        candidates: Sequence[Candidate],
        more: Callable[[], Sequence[Candidate]],
        on_verdict: Callable[[Verdict], None],
        *,
        task: Task = ...,
    ) -> None:
        """Judge candidates, and what `more` gives until it gives nothing."""
