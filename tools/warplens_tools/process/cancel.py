# SPDX-License-Identifier: Apache-2.0
"""Cancellation and progress, as every long operation takes them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from warplens_tools.errors import CancelledError

#: Called with a short sentence and, where it is known, the share done (0 to 1).
Progress = Callable[[str, float | None], None]


def no_progress(message: str, share: float | None = None) -> None:
    """A `Progress` that says nothing."""


class CancelToken:
    """Asks work in other threads to stop. Thread-safe; once cancelled it stays so."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Ask for a stop, and run what was registered with `on_cancel`, once."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Run `callback` on cancellation (at once if it already happened); returns its removal."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return lambda: self._remove(callback)
        callback()
        return lambda: None

    def check(self) -> None:
        """Raise if cancelled.

        Raises:
            CancelledError: `cancel` was called.
        """
        if self._event.is_set():
            raise CancelledError("cancelled")

    def _remove(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


_HERE = threading.local()


#: Seconds that one piece of background work waits at most for what is urgent, at one checkpoint and in all.
_LONGEST_WAIT, _LONGEST_WAITING = 0.1, 3.0


class RightOfWay:
    """Lets the threads that somebody waits for go before those in the background. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._urgent = 0
        self._free = threading.Event()
        self._free.set()

    @contextlib.contextmanager
    def urgent(self) -> Iterator[None]:
        """While inside, work in the background stands still at its checkpoints, for a while."""
        with self._lock:
            self._urgent += 1
            self._free.clear()
        try:
            yield
        finally:
            with self._lock:
                self._urgent -= 1
                if not self._urgent:
                    self._free.set()

    def give(self, waited: float) -> float:
        """Wait for what is urgent, having `waited` so many seconds already; returns the sum."""
        if self._free.is_set() or waited >= _LONGEST_WAITING:
            return waited
        started = time.monotonic()
        self._free.wait(_LONGEST_WAIT)
        return waited + time.monotonic() - started


@contextlib.contextmanager
def cancellable(token: CancelToken, gives: RightOfWay | None = None) -> Iterator[None]:
    """Let `checkpoint` end what this thread does inside, once `token` is cancelled.

    With `gives` it is work in the background, which gives way.
    """
    before = getattr(_HERE, "token", None), getattr(_HERE, "gives", None), getattr(_HERE, "waited", 0.0)
    _HERE.token, _HERE.gives, _HERE.waited = token, gives, 0.0
    try:
        yield
    finally:
        _HERE.token, _HERE.gives, _HERE.waited = before


def checkpoint() -> None:
    """A place where long work on one thread, such as reading a large file, can be ended, or wait for what is urgent.

    Raises:
        CancelledError: the token of the `cancellable` around it was cancelled.
    """
    token: CancelToken | None = getattr(_HERE, "token", None)
    if token is not None:
        token.check()
    gives: RightOfWay | None = getattr(_HERE, "gives", None)
    if gives is not None:
        _HERE.waited = gives.give(_HERE.waited)
