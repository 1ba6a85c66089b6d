# SPDX-License-Identifier: Apache-2.0
"""The examiner's end of a worker: starts it, asks it, bounds it. Imported by `examiner.py` from beside it."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


class WorkerError(Exception):
    """What became of a worker, as a verdict's state and reason."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(reason)
        self.state, self.reason = state, reason


class Worker:
    """A process that runs one module."""

    def __init__(self, device: str, limit: float) -> None:
        self._limit = limit
        mine, theirs = socket.socketpair()
        command = [
            sys.executable,
            "-P",
            str(Path(__file__).with_name("worker.py")),
            str(theirs.fileno()),
            device,
        ]
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._channel = Connection(mine.detach())

    def ask(self, do: str, *, limit: float | None = None, **fields: Any) -> dict[str, Any]:
        """One request.

        Raises:
            WorkerError: it ended, did not answer in time, or says what is wrong.
        """
        answer, _ = self.timed(do, limit=limit, **fields)
        return answer

    def timed(self, do: str, *, limit: float | None = None, **fields: Any) -> tuple[dict[str, Any], float]:
        """The answer, and the seconds that it took on this side's clock."""
        try:
            started = time.perf_counter()
            self._channel.send({"do": do, **fields})
            if not self._channel.poll(limit or self._limit):
                raise WorkerError("hung", f"it did not answer within {limit or self._limit:g} s")
            said = self._channel.recv_bytes(1 << 24)
            seconds = time.perf_counter() - started
            answer = json.loads(said)
        except (EOFError, OSError, ValueError) as error:
            raise WorkerError("crashed", self._ending()) from error
        if not isinstance(answer, dict):
            raise WorkerError("crashed", "it answers nonsense")
        if "error" in answer:
            raise WorkerError("crashed" if answer.get("raised") else "wrong", str(answer["error"])[:500])
        return answer, seconds

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            import os

            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _ending(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(timeout=5)
            return f"it was killed by signal {-status}" if status < 0 else f"it ended with status {status}"
        return "it closed its channel"
