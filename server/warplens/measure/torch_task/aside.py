# SPDX-License-Identifier: Apache-2.0
"""What of a request's time is not the module's. Imported by `examiner.py` from beside it.

Asked of the reference's own worker: a candidate's could lie, or wait where few calls are asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from remote import Worker


def copying(eager: Worker, count: int) -> float:
    """Seconds of so many calls' copies of outputs that were just written. Raises WorkerError."""
    slots = list(range(count))
    writing, both = (float(eager.timed("beside", slots=slots, copies=copies)[1]) for copies in (False, True))
    return max(both - writing, 0.0)


def requesting(eager: Worker, count: int, renew: Callable[[], None], *, backward: bool) -> float:
    """Seconds that a request takes however many calls it asks for: half of the calls take half of the rest.

    `renew` writes to memory of the card, as before every request of a round: that the card changes hands is a part of
    it, half of 0.7 ms on an H200. Raises WorkerError.
    """
    half, seconds = count // 2, []
    for calls in (count, half):
        renew()
        seconds.append(float(eager.timed("run", slots=list(range(calls)), backward=backward)[1]))
    whole, less = seconds
    return max((count * less - half * whole) / (count - half), 0.0)
