# SPDX-License-Identifier: Apache-2.0
"""Where the time of a judgement goes, and steps that need no clock side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager

from warplens_tools.process.task import Task

#: Beside one another: so many processes at most, in so much of the card's memory, each with a driver context of so many
#: bytes.
_MOST_BESIDE, _ROOM, _CONTEXT = 6, 0.8, 2 << 30


class Costs:
    """Seconds by the name of a step, added up; steps may overlap. Thread-safe."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Count what happens inside as this step's."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - started)

    def add(self, name: str, seconds: float) -> None:
        """Count seconds as this step's."""
        with self._lock:
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def told(self) -> dict[str, float]:
        """All of it so far, to the millisecond."""
        with self._lock:
            return {name: round(seconds, 3) for name, seconds in self._seconds.items()}


#: The step in which another process has the card.
WAITING = "waiting for the card"
Step = Callable[[Task], object]


def side_by_side(steps: Sequence[Step], at_once: int, task: Task) -> None:
    """Run steps, so many at once. The first one that raises ends the others, and its error is raised."""
    with task.branch() as branch, ThreadPoolExecutor(max(1, at_once)) as pool:

        def run(step: Step) -> None:
            branch.check()
            step(branch)

        try:
            for done in as_completed([pool.submit(run, step) for step in steps]):
                done.result()
        except BaseException:
            branch.token.cancel()
            raise


def beside(card: int, program: int) -> int:
    """How many processes of a program may share a card, both in bytes: each holds a copy of the program's memory, its
    inputs elsewhere, and a context of its own."""
    each = 3 * program + _CONTEXT
    return max(1, min(_MOST_BESIDE, int(_ROOM * card) // each))
