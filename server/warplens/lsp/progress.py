# SPDX-License-Identifier: Apache-2.0
"""A job as the client sees it: work-done progress, and its cancel."""

from __future__ import annotations

import asyncio
import contextlib
import uuid

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from warplens.lsp.connection import Connection
from warplens.lsp.scheduler import cancel_in_background
from warplens_tools.process.task import Task


class Job(Task):
    """A task that reports to the client, under the client's token or one that the server creates.

    Without a client's token it begins only after `delay` seconds, so that short work shows nothing. The
    client's cancel stops it.
    """

    def __init__(
        self,
        server: Connection,
        title: str,
        *,
        token: types.ProgressToken | None = None,
        delay: float = 0.3,
    ) -> None:
        super().__init__(self._hear)
        self._server = server
        self._title = title
        self._given = token is not None
        self._reported: types.ProgressToken = token if token is not None else f"warplens-{uuid.uuid4()}"
        self._delay = delay
        self._loop = asyncio.get_running_loop()
        self._begun = False
        self._last: tuple[str, float | None] = ("", None)
        self._starting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Job:
        if self._given:
            self._begin()
        elif self._supported():
            self._starting = self._loop.create_task(self._begin_later())
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
        if self._begun:
            message = "cancelled" if self.token.cancelled else None
            self._server.work_done_progress.end(self._reported, types.WorkDoneProgressEnd(message=message))
            self._server.work_done_progress.tokens.pop(self._reported, None)

    def _hear(self, message: str, share: float | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the client is gone
            self._loop.call_soon_threadsafe(self._report, message, share)

    def _supported(self) -> bool:
        window = self._server.session.capabilities.window
        return bool(window is not None and window.work_done_progress)

    async def _begin_later(self) -> None:
        await asyncio.sleep(self._delay)
        try:
            await self._server.work_done_progress.create_async(self._reported)
        except JsonRpcException:  # the client declined
            return
        self._begin()

    def _begin(self) -> None:
        message, share = self._last
        self._server.work_done_progress.begin(
            self._reported,
            types.WorkDoneProgressBegin(
                title=self._title, message=message or None, percentage=_percent(share), cancellable=True
            ),
        )
        self._begun = True
        self._server.work_done_progress.tokens[self._reported].add_done_callback(
            lambda future: cancel_in_background(self.token) if future.cancelled() else None
        )

    def _report(self, message: str, share: float | None) -> None:
        self._last = (message, share)
        if self._begun and self._reported in self._server.work_done_progress.tokens:
            self._server.work_done_progress.report(
                self._reported,
                types.WorkDoneProgressReport(message=message, percentage=_percent(share), cancellable=True),
            )


def _percent(share: float | None) -> int | None:
    return None if share is None else round(100 * min(max(share, 0.0), 1.0))
