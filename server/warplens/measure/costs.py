# SPDX-License-Identifier: Apache-2.0
"""Where the time of a judgement goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Costs:
    """Seconds by the name of a step, added up; steps may overlap. Thread-safe."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def of(self, name: str, waited: Callable[[], float] = lambda: 0.0) -> Iterator[None]:
        """Count what happens inside as this step's, but for the seconds that `waited` grows by: those are counted
        elsewhere."""
        started, before = time.monotonic(), waited()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - started - (waited() - before))

    def add(self, name: str, seconds: float) -> None:
        """Count seconds as this step's."""
        with self._lock:
            self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def told(self) -> dict[str, float]:
        """All of it so far, to the millisecond."""
        with self._lock:
            return {name: round(seconds, 3) for name, seconds in self._seconds.items()}


#: Parts of a candidate's verdict: its compiler; the program's start, before it uses the card and after; what its visit
#: does once for all candidates, visits before it that the kernel itself ended among them; and what is its own.
BUILD, ARRIVAL = "build", "arrival"
LOST = "lost to the kernel's own faults"
START, SNAPSHOT, LEARN, LARGER, WARM_UP = "start", "snapshot", "learn", "larger copies", "warm up"
LOAD, COMPARE, TIME, EXAMINE = "load", "compare", "time", "examine"
#: What needs no card; what a visit has once, each candidate its share of it; and what each has for itself.
BESIDE = frozenset({BUILD, ARRIVAL})
ONCE = frozenset({LOST, START, SNAPSHOT, LEARN, LARGER, WARM_UP})
OWN = frozenset({LOAD, COMPARE, TIME, EXAMINE})

#: The step in which another process has the card.
WAITING = "waiting for the card"
