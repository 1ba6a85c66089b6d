# SPDX-License-Identifier: Apache-2.0
"""Cancellation and progress, as every long operation takes them."""

from __future__ import annotations

import contextlib
import threading
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


@contextlib.contextmanager
def cancellable(token: CancelToken) -> Iterator[None]:
    """Let `checkpoint` end what this thread does inside, once `token` is cancelled."""
    before = getattr(_HERE, "token", None)
    _HERE.token = token
    try:
        yield
    finally:
        _HERE.token = before


def checkpoint() -> None:
    """A place where long work on one thread, such as reading a large file, can be ended.

    Raises:
        CancelledError: the token of the `cancellable` around it was cancelled.
    """
    token: CancelToken | None = getattr(_HERE, "token", None)
    if token is not None:
        token.check()
