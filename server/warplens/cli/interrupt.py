# SPDX-License-Identifier: Apache-2.0
"""What a signal does to a command: its work is cancelled, what it started ends, its folders go."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType

from warplens.cli.streams import say
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import Task

_TOKEN: ContextVar[CancelToken | None] = ContextVar("warplens-cancel", default=None)


class Interrupted(KeyboardInterrupt):
    """A signal asked the command to end."""


class Interrupts:
    """Which signal came; 0 for none."""

    number = 0


def command_task() -> Task:
    """The command's work: told on stderr, stopped when the command is told to end."""
    return Task(say, _TOKEN.get())


@contextlib.contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Raise `Interrupted` in the main thread at SIGINT, SIGTERM and SIGHUP; later ones wait for the clean-up.

    A signal that whoever started the command has ignored (`nohup`) stays ignored.
    """
    token, came = CancelToken(), Interrupts()
    kept = _TOKEN.set(token)

    def stop(number: int, _frame: FrameType | None) -> None:
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        # from another thread: this one may be in the middle of the token's own work
        threading.Thread(target=token.cancel, daemon=True).start()
        came.number = number
        raise Interrupted

    before = {}
    if threading.current_thread() is threading.main_thread():
        wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {n: signal.getsignal(n) for n in wanted if signal.getsignal(n) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, stop)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _TOKEN.reset(kept)
