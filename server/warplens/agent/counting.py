# SPDX-License-Identifier: Apache-2.0
"""Counters of the baseline, collected beside a search whose judge has several lanes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from types import TracebackType

from warplens.agent.problem import Learned
from warplens_tools.errors import CancelledError
from warplens_tools.process.task import Task


class Counting:
    """What the counters say, once they are there. Leaving its `with` ends the collection, finished or not.

    `learn` may raise CancelledError, and nothing else: it says itself what could not be collected.
    """

    def __init__(self, learn: Callable[[Task], Learned], task: Task) -> None:
        self._learn, self._whole = learn, task
        self._stack = contextlib.ExitStack()
        self._thread: threading.Thread | None = None
        self._found: Learned | None = None

    def __enter__(self) -> Counting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._part.token.cancel()
            self._thread.join()
        self._stack.close()

    @property
    def begun(self) -> bool:
        """Whether they are being collected, or were."""
        return self._thread is not None

    def begin(self) -> None:
        """Collect them, in a thread of its own."""
        self._part = self._stack.enter_context(self._whole.branch())
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def take(self) -> Learned | None:
        """What they say, the first time that it is asked for once it is known."""
        found = self._found
        if found is None:
            # nothing is written here: what the thread puts down meanwhile would be lost
            return None
        self._found = None
        return found

    def _collect(self) -> None:
        try:
            self._found = self._learn(self._part)
        except CancelledError:
            # the search ended first, or says so itself
            return
