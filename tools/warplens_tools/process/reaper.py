# SPDX-License-Identifier: Apache-2.0
"""Kills the process groups that this process started when it is gone before it could, by SIGKILL too.

A small process of its own session reads from a pipe which groups are alive. The pipe ends with this process,
however that ends; what is alive then is killed. As a script it uses only the standard library
(`python -I -S reaper.py`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

#: For what ends by itself with this process.
_GRACE_SECONDS = 1.5


class Reaper:
    """The watching process, started with the first group. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe = -1
        os.register_at_fork(after_in_child=self._leave_to_the_parent)

    @contextlib.contextmanager
    def watching(self, group: int) -> Iterator[None]:
        """Have process group `group` killed if this process ends before the block does."""
        self._tell(f"+{group}\n")
        try:
            yield
        finally:
            self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        with self._lock:
            for _ in range(2):
                if self._pipe < 0:
                    self._start()
                try:
                    os.write(self._pipe, line.encode())
                except (
                    OSError
                ):  # somebody killed the watcher; it knew of other groups, which end by themselves
                    self._forget()
                else:
                    return

    def _start(self) -> None:
        reading, self._pipe = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", os.path.abspath(__file__)],  # noqa: PTH100
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, reading, 0),
                    (os.POSIX_SPAWN_DUP2, null, 1),
                    (os.POSIX_SPAWN_DUP2, null, 2),
                ],
                setsid=True,
                setsigmask=[],
            )
        finally:
            os.close(reading)
            os.close(null)

    def _leave_to_the_parent(self) -> None:
        """In a forked child: one that held the pipe would keep the watcher waiting."""
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            with contextlib.suppress(OSError):
                os.close(pipe)


def main() -> None:
    """Read which groups begin and end; at the pipe's end kill those that are left."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    alive: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            alive.add(group)
        else:
            alive.discard(group)
    # a guard that dies with its parent (`guard.py`) finds what left its group, unless it is killed first
    until = time.monotonic() + _GRACE_SECONDS
    for group in alive:
        with contextlib.suppress(OSError):
            while time.monotonic() < until:
                os.killpg(group, 0)
                time.sleep(0.02)
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
