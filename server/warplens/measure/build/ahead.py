# SPDX-License-Identifier: Apache-2.0
"""What is compiled before anybody asks for it: the candidates that a search is expected to begin with.

A search cannot have a candidate judged before the baseline was measured, and that waits for the program's build, its
run and the card. Candidates need none of these to be compiled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from warplens.measure.verdict import Candidate

T = TypeVar("T")


class Ahead(Generic[T]):
    """Candidates that are expected, and what became of their texts. Thread-safe; either side may come first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: list[Candidate] = []
        self._begins: Callable[[Candidate], tuple[str, Callable[[], T]] | None] | None = None
        self._jobs = 1
        self._made: dict[str, Future[T]] = {}

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """These are likely to be asked for."""
        with self._lock:
            self._expected += candidates
            self._go_on()

    def begin(self, begins: Callable[[Candidate], tuple[str, Callable[[], T]] | None], jobs: int) -> None:
        """From here on there is all that making them takes, so many at a time: `begins` gives a candidate's text and
        what makes it, None for one that is not made beforehand."""
        with self._lock:
            self._begins, self._jobs = begins, jobs
            self._go_on()

    def take(self, text: str) -> T | None:
        """What was made of a text, when it is; None where it was not expected, or came to an error: whoever makes it
        again meets that."""
        with self._lock:
            made = self._made.pop(text, None)
        return None if made is None or made.exception() is not None else made.result()

    def _go_on(self) -> None:
        if self._begins is None or not self._expected:
            return
        with_all = ThreadPoolExecutor(self._jobs)
        for candidate in self._expected:
            begun = self._begins(candidate)
            if begun is not None and begun[0] not in self._made:
                self._made[begun[0]] = with_all.submit(begun[1])
        self._expected.clear()
        # its threads end with what they make
        with_all.shutdown(wait=False)
