# SPDX-License-Identifier: Apache-2.0
"""What measures: a judge, a pool of them, or answers that come by file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from warplens.measure.confirm import Confirmation
from warplens.measure.session import Baseline
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.process.task import Task


class Measures(Protocol):
    """`warplens.measure.judge.Judge`, or what stands for it."""

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


@runtime_checkable
class Expects(Protocol):
    """A judge that may begin with candidates before it is asked for them."""

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """These are likely judged first. May be called while the baseline is measured, from another thread."""
