"""Keeps analysis off the event loop: the newest text of a file wins, one worker thread per kind of work."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from warplens_tools.process.cancel import CancelToken

T = TypeVar("T")

#: A pause in typing this long starts the analysis. Short enough that its answer arrives within 50 ms of
#: the last key; keys of a paste or a held key arrive closer together.
PAUSE_SECONDS = 0.005
SLOW_SECONDS = 0.1


def cancel_in_background(token: CancelToken) -> None:
    """Cancel from a thread of its own: killing a process tree may take longer than the loop may stand."""
    threading.Thread(target=token.cancel, name="warplens-cancel", daemon=True).start()


class Worker:
    """One thread. A job submitted under a key cancels the older job of that key."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._tokens: dict[str, CancelToken] = {}

    def running(self, key: str) -> bool:
        """Whether a job of this key waits or runs."""
        return key in self._tokens

    def cancel(self, key: str) -> None:
        """Stop the job of this key, if there is one."""
        token = self._tokens.pop(key, None)
        if token is not None:
            cancel_in_background(token)

    async def run(self, key: str, token: CancelToken, work: Callable[[], T]) -> T:
        """Run `work` on the thread; it watches `token` itself, which is also checked before it starts.

        Raises:
            CancelledError: `token` was cancelled before it started.
        """
        self.cancel(key)
        self._tokens[key] = token

        def start() -> T:
            token.check()
            return work()

        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, start)
        except asyncio.CancelledError:
            cancel_in_background(token)
            raise
        finally:
            if self._tokens.get(key) is token:
                del self._tokens[key]

    def stop(self) -> None:
        """Cancel everything, without waiting."""
        for key in list(self._tokens):
            self.cancel(key)

    def close(self) -> None:
        """Cancel everything; returns when the process trees are gone."""
        self.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)


class Debounce:
    """Runs `work(key)` after a pause in the requests for that key, never twice at once for one key.

    Requests during a run lead to one more run. Where a run takes longer than a person waits without
    noticing, the pause is as long as the last run, so that a slow file takes half of one core at most.
    """

    def __init__(self, work: Callable[[str], Awaitable[None]]) -> None:
        self._work = work
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        #: The shorter of the last two runs: one slow run may be the machine's doing.
        self._took: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def request(self, key: str, *, at_once: bool = False) -> None:
        """Ask for a run; a later request before the pause is over starts the pause anew."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
            return
        took = self._took.get(key, 0.0)
        pause = 0.0 if at_once else took if took > SLOW_SECONDS else PAUSE_SECONDS
        self._timers[key] = asyncio.get_running_loop().call_later(pause, self._start, key)

    def forget(self, key: str) -> None:
        """Drop what is waiting for this key."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._again.discard(key)
        self._took.pop(key, None)
        self._last.pop(key, None)

    def _start(self, key: str) -> None:
        self._timers.pop(key, None)
        self._running[key] = asyncio.get_running_loop().create_task(self._run(key))

    async def _run(self, key: str) -> None:
        started = time.monotonic()
        try:
            await self._work(key)
        finally:
            took = time.monotonic() - started
            self._took[key] = min(took, self._last.get(key, took))
            self._last[key] = took
            del self._running[key]
            if key in self._again:
                self._again.discard(key)
                self.request(key)
