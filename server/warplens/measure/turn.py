# SPDX-License-Identifier: Apache-2.0
"""Taking turns at the card with other processes while one candidate is confirmed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from warplens.measure.conditions import Watch
from warplens.measure.session import Session
from warplens_tools.process.task import Task


class Turn:
    """The card from when it is asked for until it is left, at the end of the `with` at the latest."""

    def __init__(self, session: Session, what: str, task: Task) -> None:
        self._session, self._what, self._task = session, what, task
        self._held = ExitStack()
        self._watch: Watch | None = None
        #: Seconds that it was asked for while others had it; the session counts them, too.
        self.waited = 0.0

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def take(self) -> Watch:
        """Have the card, after others if need be; what watches it from then on. Raises as `gpu_lock`."""
        if self._watch is None:
            asked = time.monotonic()
            self._watch = self._held.enter_context(self._session.card(self._what, self._task))
            self.waited += time.monotonic() - asked
        return self._watch

    @contextmanager
    def shared(self) -> Iterator[None]:
        """The card beside others who need no clock either, in place of the turn that is left for it."""
        self.leave()
        asked = time.monotonic()
        with self._session.card(self._what, self._task, shared=True):
            self.waited += time.monotonic() - asked
            yield

    def leave(self) -> None:
        """Let others have the card; nothing of this process may be at work there."""
        self._watch = None
        self._held.close()
