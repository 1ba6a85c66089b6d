# SPDX-License-Identifier: Apache-2.0
"""A winner is measured again within a time, and how long it takes is said before."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from warplens.measure.judge import Confirmation
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.process.task import Task


class Confirms(Protocol):
    """What a confirmation needs of a judge."""

    def confirm(self, candidate: Candidate, *, task: Task = ...) -> Confirmation:
        """Measure a winner again."""

    def confirmation_seconds(self) -> float:
        """How long that may take at most."""


@runtime_checkable
class Estimates(Protocol):
    """A judge that knows how long a confirmation takes as a rule."""

    def confirmation_about(self) -> float:
        """In seconds; 0 where it does not know yet."""


def confirmed(judge: Confirms, candidate: Candidate, task: Task) -> Confirmation:
    """A winner measured again within a bound of its own; beyond, it is unproven. How long that takes as a rule, or the
    bound where nothing else is known, is said before it starts.

    Raises:
        as `Judge.confirm`.
    """
    seconds = judge.confirmation_seconds()
    about = judge.confirmation_about() if isinstance(judge, Estimates) else 0.0
    length = f"about {about:.0f}" if 0.0 < about < seconds else f"at most {seconds:.0f}"
    task.say(f"confirming, which takes {length} s: {candidate.title}", None)
    with task.within(seconds) as limit:
        return judge.confirm(candidate, task=limit)
    why = f"measuring it again took longer than its bound of {seconds:.0f} s"
    return Confirmation(Verdict(candidate.id, "unproven", why))
