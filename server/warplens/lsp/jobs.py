# SPDX-License-Identifier: Apache-2.0
"""Long work that the user asked for: one job at a time, with progress and cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lsprotocol import types

from warplens.lsp.connection import Connection
from warplens.lsp.progress import Job
from warplens.lsp.scheduler import Pool
from warplens_tools.errors import InputError
from warplens_tools.process.task import Task

T = TypeVar("T")
_KEY = "job"


class Jobs:
    """The one worker that may use the GPU."""

    def __init__(self, server: Connection) -> None:
        self._server = server
        self._worker = Pool("warplens-job")

    async def run(
        self,
        title: str,
        token: types.ProgressToken | None,
        work: Callable[[Task], T],
    ) -> T:
        """Run `work` on the worker's thread; the client's progress or `$/cancelRequest` ends it.

        Raises:
            InputError: the workspace is not trusted, or another job runs.
        """
        if not self._server.session.trusted:
            raise InputError("the workspace is not trusted: nothing in it is built or run", remedy="trust it")
        if self._worker.running(_KEY):
            raise InputError("another optimization runs", remedy="wait for it, or cancel it")
        self._server.status("optimizing", title)
        try:
            async with Job(self._server, title, token=token, delay=0.0) as task:
                return await self._worker.run(_KEY, task.token, lambda: work(task))
        finally:
            self._server.status("ready")

    def stop(self) -> None:
        """Cancel the job, without waiting for it."""
        self._worker.stop()

    def close(self) -> None:
        """Cancel the job; returns when its process tree is gone."""
        self._worker.close()
