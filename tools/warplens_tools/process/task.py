# SPDX-License-Identifier: Apache-2.0
"""What every long operation takes: whom it tells how far it is, who may stop it, and until when."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Iterator
from types import TracebackType

from warplens_tools.errors import CancelledError
from warplens_tools.process.cancel import CancelToken, Progress, no_progress


class Task:
    """One piece of long work, as whoever asked for it sees it. Thread-safe."""

    def __init__(self, progress: Progress = no_progress, token: CancelToken | None = None) -> None:
        self._progress = progress
        #: Stops the work; a new one where none was given.
        self.token = token if token is not None else CancelToken()

    def say(self, message: str, share: float | None = None) -> None:
        """Tell a short sentence and, where it is known, the share done (0 to 1)."""
        self._progress(message, share)

    def check(self) -> None:
        """Raise if the work is to stop.

        Raises:
            CancelledError: the token was cancelled.
        """
        self.token.check()

    def left(self) -> float:
        """Seconds until it ends by itself; infinite where nobody has set a bound."""
        return math.inf

    def part(self, progress: Progress = no_progress) -> Task:
        """A part that stops with the whole; what it says goes to `progress`, by default to nobody."""
        return _Part(self, progress)

    def step(self, number: int, count: int) -> Task:
        """Part `number` (from 0) of `count` alike; what it says is told as the whole's. A single one is the whole."""
        if count < 2:
            return self
        return self.part(
            lambda message, share: self.say(
                f"{number + 1} of {count}: {message}", (number + (share or 0.0)) / count
            )
        )

    @contextlib.contextmanager
    def branch(self) -> Iterator[Task]:
        """A part that stops with the whole, and that can be cancelled while the whole goes on."""
        part = Task(self.say)
        remove = self.token.on_cancel(part.token.cancel)
        try:
            yield part
        finally:
            remove()

    def within(self, seconds: float) -> Bounded:
        """A part that also stops when `seconds` are over; a context manager."""
        return Bounded(self, seconds)


class _Part(Task):
    """Stops with the whole, and has as long."""

    def __init__(self, whole: Task, progress: Progress) -> None:
        super().__init__(progress, whole.token)
        self._whole = whole

    def left(self) -> float:
        return self._whole.left()


class Bounded(Task):
    """A part of `whole` that ends in time: leaving its `with` swallows the cancellation by its own clock alone."""

    def __init__(self, whole: Task, seconds: float) -> None:
        super().__init__(whole.say)
        #: The time is over, which is no wish of the user's.
        self.expired = False
        self._whole = whole
        self._ends = time.monotonic() + max(seconds, 0.0)
        self._timer = threading.Timer(max(seconds, 0.0), self._expire)
        self._timer.daemon = True
        self._remove = whole.token.on_cancel(self.token.cancel)

    def left(self) -> float:
        """Seconds until its own time or the whole's is over; never below 0."""
        return min(max(0.0, self._ends - time.monotonic()), self._whole.left())

    def __enter__(self) -> Bounded:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._timer.cancel()
        self._remove()
        return isinstance(error, CancelledError) and self.expired and not self._whole.token.cancelled

    def _expire(self) -> None:
        self.expired = True
        self.token.cancel()


class _Endless(CancelToken):
    """Everybody holds it, so nobody may cancel it."""

    def cancel(self) -> None:
        raise RuntimeError("this task is nobody's: give the work one of its own to be able to stop it")


#: The default of every `task`: says nothing, and is never stopped.
UNATTENDED = Task(token=_Endless())
