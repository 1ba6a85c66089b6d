# SPDX-License-Identifier: Apache-2.0
"""A winner is measured again within a time that is said before."""

from __future__ import annotations

from typing import Protocol

from warplens.measure.judge import Confirmation
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.process.task import Task


class Confirms(Protocol):
    """What a confirmation needs of a judge."""

    def confirm(self, candidate: Candidate, *, task: Task = ...) -> Confirmation:
        """Measure a winner again."""

    def confirmation_seconds(self) -> float:
        """How long that may take at most."""


def confirmed(judge: Confirms, candidate: Candidate, task: Task) -> Confirmation:
    """A winner measured again within a bound of its own, which is said before it starts; beyond, it is unproven.

    Raises:
        as `Judge.confirm`.
    """
    seconds = judge.confirmation_seconds()
    task.say(f"confirming, which takes at most {seconds:.0f} s: {candidate.title}", None)
    with task.within(seconds) as limit:
        return judge.confirm(candidate, task=limit)
    why = f"measuring it again took longer than its bound of {seconds:.0f} s"
    return Confirmation(Verdict(candidate.id, "unproven", why))
