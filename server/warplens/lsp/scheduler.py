# SPDX-License-Identifier: Apache-2.0
"""Keeps analysis off the event loop: the newest text of a file wins, the most wanted file goes first."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from warplens_tools.errors import CancelledError
from warplens_tools.process.cancel import CancelToken, RightOfWay, cancellable

T = TypeVar("T")

#: A pause in typing this long starts the analysis. Short enough that its answer arrives within 50 ms of
#: the last key; keys of a paste or a held key arrive closer together.
PAUSE_SECONDS = 0.005
#: Typing without a pause waits no longer than this.
LONGEST_SECONDS = 0.05
#: An analysis that takes longer than this is not run without a pause between.
SLOW_SECONDS = 0.5


def cancel_in_background(token: CancelToken) -> None:
    """Cancel from a thread of its own: killing a process tree may take longer than the loop may stand."""
    threading.Thread(target=token.cancel, name="warplens-cancel", daemon=True).start()


#: How much a key is wanted: whether somebody looks at it, and the seconds it is expected to take.
Rank = Callable[[str], tuple[bool, float]]


class GaveWayError(CancelledError):
    """A job was ended for one that somebody looks at, and is to be asked for again."""


class _Job:
    def __init__(self, key: str, token: CancelToken, work: Callable[[], Any], order: int) -> None:
        self.key, self.token, self.work, self.order = key, token, work, order
        self.gave_way = False
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class Pool:
    """`size` threads, and one more for what somebody looks at. A job under a key cancels the older one of that key.

    The next job is one that is looked at, then the cheapest, then the oldest. Where all threads are taken by what
    nobody looks at, the youngest of these gives way to one that is looked at.
    """

    def __init__(
        self,
        name: str,
        size: int = 1,
        rank: Rank = lambda _: (False, 0.0),
        *,
        takes: RightOfWay | None = None,
        gives: RightOfWay | None = None,
    ) -> None:
        """Its jobs take the right of way from those of a pool that gives it."""
        self._takes, self._gives = takes, gives
        self._threads = ThreadPoolExecutor(max_workers=size + 1, thread_name_prefix=name)
        self._size, self._rank = size, rank
        self._jobs: dict[str, _Job] = {}
        self._waiting: list[_Job] = []
        self._running: set[_Job] = set()
        self._count = 0

    def running(self, key: str) -> bool:
        """Whether a job of this key waits or runs."""
        return key in self._jobs

    def cancel(self, key: str) -> None:
        """Stop the job of this key, if there is one."""
        job = self._jobs.pop(key, None)
        if job is None:
            return
        if job in self._waiting:
            self._waiting.remove(job)
            job.token.cancel()
            if not job.future.done():
                job.future.set_exception(CancelledError("cancelled"))
        else:
            cancel_in_background(job.token)

    async def run(self, key: str, token: CancelToken, work: Callable[[], T]) -> T:
        """Run `work` on a thread, where `checkpoint` ends it when `token` is cancelled.

        Raises:
            GaveWayError: it was ended for a job that is more wanted.
            CancelledError: `token` was cancelled before it started, or as `work` says.
        """
        self.cancel(key)
        self._count += 1
        job = self._jobs[key] = _Job(key, token, work, self._count)
        self._waiting.append(job)
        self._dispatch()
        try:
            result = cast("T", await job.future)
            # one cancelled as it came to its end may have shown nothing: whoever saw the token took it for ended
            token.check()
            return result
        except CancelledError as error:
            if job.gave_way and self._jobs.get(key) is job:
                raise GaveWayError("it gave way") from error
            raise
        except asyncio.CancelledError:
            if job in self._waiting:
                self._waiting.remove(job)
            cancel_in_background(token)
            raise
        finally:
            if self._jobs.get(key) is job:
                del self._jobs[key]

    def stop(self) -> None:
        """Cancel everything, without waiting."""
        for key in list(self._jobs):
            self.cancel(key)

    def close(self) -> None:
        """Cancel everything; returns when the process trees are gone."""
        for job in [*self._jobs.values(), *self._running]:
            job.token.cancel()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _dispatch(self) -> None:
        while self._waiting:
            ranked = [(self._rank(job.key), job) for job in self._waiting]
            (looked_at, _), job = min(ranked, key=lambda r: (not r[0][0], r[0][1], r[1].order))
            if len(self._running) >= self._size + looked_at:
                if looked_at:
                    self._make_way()
                return
            self._waiting.remove(job)
            self._running.add(job)
            loop = asyncio.get_running_loop()
            self._threads.submit(self._work, loop, job)

    def _make_way(self) -> None:
        if any(job.gave_way or self._rank(job.key)[0] for job in self._running):
            return
        youngest = max(self._running, key=lambda job: job.order)
        youngest.gave_way = True
        cancel_in_background(youngest.token)

    def _work(self, loop: asyncio.AbstractEventLoop, job: _Job) -> None:
        result, error = None, None
        try:
            job.token.check()
            takes = self._takes.urgent() if self._takes is not None else contextlib.nullcontext()
            with takes, cancellable(job.token, self._gives):
                result = job.work()
        except BaseException as failure:  # noqa: BLE001 - it is raised where the job is awaited
            error = failure
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._ended, job, result, error)

    def _ended(self, job: _Job, result: Any, error: BaseException | None) -> None:
        self._running.discard(job)
        if not job.future.done():
            if error is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(error)
        self._dispatch()


class Debounce:
    """Runs `work(key)` after a pause in the requests for that key, never twice at once for one key.

    Requests without a pause are answered all the same, `LONGEST_SECONDS` after the first; requests during a run
    lead to one more run. Where a run takes long, the pause is as long as the last run, so that a slow file takes
    half of one core at most.
    """

    def __init__(self, work: Callable[[str], Awaitable[None]]) -> None:
        self._work = work
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        #: When the first request came that no run has answered.
        self._asked: dict[str, float] = {}
        #: The shorter of the last two runs: one slow run may be the machine's doing, and the first one is.
        self._took: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def request(self, key: str, *, at_once: bool = False) -> None:
        """Ask for a run; a later request before the pause is over starts the pause anew, within bounds."""
        loop = asyncio.get_running_loop()
        if key in self._running:
            self._again.add(key)
            return
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        asked = self._asked.setdefault(key, loop.time())
        took = self._took.get(key, 0.0)
        slow = took if took > SLOW_SECONDS else 0.0
        pause = 0.0 if at_once else max(PAUSE_SECONDS, slow)
        when = min(loop.time() + pause, asked + max(LONGEST_SECONDS, slow))
        self._timers[key] = loop.call_at(when, self._start, key)

    def took(self, key: str, seconds: float) -> None:
        """Note the processor's seconds of a run; on a machine with other work those on the clock say nothing."""
        # of the very first run nothing is concluded: it is cold
        self._took[key] = min(seconds, self._last[key]) if key in self._last else 0.0
        self._last[key] = seconds

    def forget(self, key: str) -> None:
        """Drop what is waiting for this key."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._again.discard(key)
        for times in (self._asked, self._took, self._last):
            times.pop(key, None)

    def _start(self, key: str) -> None:
        self._timers.pop(key, None)
        self._asked.pop(key, None)
        self._running[key] = asyncio.get_running_loop().create_task(self._run(key))

    async def _run(self, key: str) -> None:
        try:
            await self._work(key)
        finally:
            del self._running[key]
            if key in self._again:
                self._again.discard(key)
                self.request(key)
