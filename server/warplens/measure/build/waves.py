# SPDX-License-Identifier: Apache-2.0
"""What several makers make, handed on in two parts where the last of it takes much longer than the rest."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")
#: What is not there after so many times what half of it took is handed on later. By judgement: candidates of one
#: search take about as long as one another, but for loops that are unrolled many times, and a further visit costs a few
#: seconds of the card.
_LATE = 2.0


def in_waves(
    make: Callable[[Callable[[T], None]], None], count: int, keep: Callable[[T], U | None]
) -> Iterator[list[U]]:
    """What `make`, which runs in a thread of its own, gives of `count` things: in one list, or in two where some come
    late. Where `count` is 0 all are waited for.

    Args:
        make: calls what it is given with each thing, from whatever thread.
        keep: gets each at once, in this thread, and gives what of it belongs into a list; None for nothing.

    Raises:
        as `make`, once all that came was handed on.
    """
    made: queue.SimpleQueue[tuple[T] | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            make(lambda one: made.put((one,)))
        finally:
            made.put(None)

    started, seen, wave = time.monotonic(), 0, list[U]()
    due: float | None = None
    with ThreadPoolExecutor(1) as aside:
        running = aside.submit(run)
        while True:
            try:
                came = made.get(timeout=None if due is None else max(0.0, due - time.monotonic()))
            except queue.Empty:
                due = None
                if wave:
                    yield wave
                wave = []
                continue
            if came is None:
                break
            seen += 1
            if (kept := keep(came[0])) is not None:
                wave.append(kept)
            if seen == (count + 1) // 2:
                due = started + _LATE * (time.monotonic() - started)
        if wave:
            yield wave
        running.result()
