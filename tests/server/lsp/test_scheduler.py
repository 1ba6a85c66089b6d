# SPDX-License-Identifier: Apache-2.0
"""What becomes of a job that is cancelled just as it comes to its end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from warplens.lsp.scheduler import GaveWayError, Pool
from warplens_tools.errors import CancelledError
from warplens_tools.process.cancel import CancelToken


def test_a_job_cancelled_at_its_end_counts_as_cancelled() -> None:
    async def run() -> None:
        pool, token = Pool("test"), CancelToken()

        def work() -> str:
            token.cancel()
            return "done"

        with pytest.raises(CancelledError):
            await pool.run("a", token, work)
        assert not pool.running("a")
        assert await pool.run("a", CancelToken(), lambda: "again") == "again"
        pool.close()

    asyncio.run(run())


def test_a_job_that_gave_way_at_its_end_is_to_be_asked_for_again() -> None:
    async def run() -> None:
        looked_at = {"first", "second"}
        pool = Pool("test", rank=lambda key: (key in looked_at, 0.0))
        tokens, begun, held = [CancelToken(), CancelToken()], threading.Semaphore(0), threading.Event()
        let_go = threading.Event()
        tokens[1].on_cancel(let_go.set)

        def work(until: threading.Event) -> str:
            begun.release()
            until.wait()
            return "what it found was dropped"

        first = asyncio.create_task(pool.run("first", tokens[0], lambda: work(held)))
        second = asyncio.create_task(pool.run("second", tokens[1], lambda: work(let_go)))
        for _ in range(2):
            await asyncio.to_thread(begun.acquire)
        # both threads are taken by what nobody looks at any more
        looked_at.clear()
        looked_at.add("third")
        third = asyncio.create_task(pool.run("third", CancelToken(), lambda: "seen"))
        with pytest.raises(GaveWayError):
            await second
        assert await third == "seen"
        held.set()
        assert await first
        pool.close()

    asyncio.run(run())
