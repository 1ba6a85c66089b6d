# SPDX-License-Identifier: Apache-2.0
"""What a pool is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from warplens.measure.confirm import Confirmation
from warplens.measure.session import Baseline
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.process.task import Task


class Lane(Protocol):
    """A judge somewhere, that does one thing at a time."""

    card: str
    confirmation_seconds: float
    confirmation_about: float

    @property
    def lost(self) -> bool:
        """Whether nothing more comes of it."""

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """These are likely judged first: they may be built while it measures the baseline."""

    def baseline(self, task: Task) -> Baseline:
        """Measure the baseline on its card."""

    def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
        """Judge candidates."""

    def confirm(self, candidate: Candidate, task: Task) -> Confirmation:
        """Measure a winner again."""
