# SPDX-License-Identifier: Apache-2.0
"""Time limits that hold: work is cancelled when its time is over, and what it told until then stands."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Protocol

from warplens.measure.judge import Confirmation
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.errors import CancelledError
from warplens_tools.process.cancel import CancelToken, Progress


class Confirms(Protocol):
    """What a confirmation needs of a judge."""

    def confirm(
        self, candidate: Candidate, *, progress: Progress = ..., cancel: CancelToken | None = ...
    ) -> Confirmation:
        """Measure a winner again."""

    def confirmation_seconds(self) -> float:
        """How long that may take at most."""


class Deadline:
    """A cancel token that fires when `seconds` are over, or with the user's own; it swallows only its own firing."""

    def __init__(self, seconds: float, cancel: CancelToken | None) -> None:
        self.token = CancelToken()
        #: The time is over, which is no wish of the user's.
        self.expired = False
        self._cancel = cancel
        self._timer = threading.Timer(max(seconds, 0.0), self._expire)
        self._timer.daemon = True
        self._remove = cancel.on_cancel(self.token.cancel) if cancel is not None else None

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._timer.cancel()
        if self._remove is not None:
            self._remove()
        wished = self._cancel is not None and self._cancel.cancelled
        return isinstance(error, CancelledError) and self.expired and not wished

    def _expire(self) -> None:
        self.expired = True
        self.token.cancel()


def confirmed(
    judge: Confirms, candidate: Candidate, progress: Progress, cancel: CancelToken | None
) -> Confirmation:
    """A winner measured again within a bound of its own, which is said before it starts; beyond, it is unproven.

    Raises:
        as `Judge.confirm`.
    """
    seconds = judge.confirmation_seconds()
    progress(f"confirming, which takes at most {seconds:.0f} s: {candidate.title}", None)
    with Deadline(seconds, cancel) as limit:
        return judge.confirm(candidate, progress=progress, cancel=limit.token)
    why = f"measuring it again took longer than its bound of {seconds:.0f} s"
    return Confirmation(Verdict(candidate.id, "unproven", why))
