# SPDX-License-Identifier: Apache-2.0
"""A lane's process, with a judge of its own.

The lanes of a card share it by its lock, which a judge holds only while it measures. Run as
`python -P -m warplens.measure.pool.worker SETUP`; requests come on standard input, answers go to standard output.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from typing import BinaryIO

import msgspec

from warplens.measure.measures import Expects, Measures
from warplens.measure.pool.messages import (
    Answer,
    Baselined,
    Confirmed,
    Confirming,
    Expecting,
    Judging,
    Request,
    Said,
    Setup,
    Stop,
    Told,
    done,
    failure,
    opened,
)
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.decode import from_json
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import Task


class _Work(threading.Thread):
    """Answers one request after the other."""

    def __init__(self, setup: Setup, out: _Out) -> None:
        super().__init__(daemon=True)
        self._setup, self._out = setup, out
        self._requests: queue.SimpleQueue[tuple[Request, CancelToken] | None] = queue.SimpleQueue()
        self._token = CancelToken()
        self._opening = threading.Lock()
        self._judge: Measures | None = None
        self._expected: tuple[Candidate, ...] = ()

    def expect(self, request: Expecting) -> None:
        """Let the judge know, or whichever will be opened."""
        with self._opening:
            self._expected += request.candidates
            self._let_know()

    def _let_know(self) -> None:
        if self._expected and isinstance(self._judge, Expects):
            self._judge.expect(self._expected)
            self._expected = ()

    def ask(self, request: Request) -> None:
        """Have it answered, after those before it."""
        self._token = CancelToken()
        self._requests.put((request, self._token))

    def stop(self) -> None:
        """End what was asked last, even if it has not begun."""
        self._token.cancel()

    def end(self) -> None:
        """Answer nothing more."""
        self.stop()
        self._requests.put(None)

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            while (asked := self._requests.get()) is not None:
                request, token = asked
                task = Task(self._progress, token)
                try:
                    judge = self._judge or self._open(stack)
                    self._answer(judge, request, task)
                    self._say(done(judge))
                except BaseException as error:  # noqa: BLE001 - it travels to whoever asked
                    self._say(failure(error))

    def _open(self, stack: contextlib.ExitStack) -> Measures:
        judge = stack.enter_context(opened(self._setup))
        with self._opening:
            self._judge = judge
            self._let_know()
        return judge

    def _answer(self, judge: Measures, request: Request, task: Task) -> None:
        if isinstance(request, Baselined):
            self._say(Baselined(judge.baseline(task=task)))
        elif isinstance(request, Judging):
            told: set[str] = set()

            def tell(verdict: Verdict) -> None:
                if verdict.candidate not in told:
                    told.add(verdict.candidate)
                    self._say(Told(verdict))

            for verdict in judge.judge(request.candidates, task=task, on_verdict=tell):
                tell(verdict)
        elif isinstance(request, Confirming):
            self._say(Confirmed(judge.confirm(request.candidate, task=task)))

    def _progress(self, message: str, share: float | None = None) -> None:
        del share
        self._say(Said(message))

    def _say(self, answer: Answer) -> None:
        self._out.put(answer)


class _Out:
    """Standard output, a whole line at a time."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def put(self, answer: Answer) -> None:
        line = msgspec.json.encode(answer) + b"\n"
        with self._lock:
            self._stream.write(line)
            self._stream.flush()


def main() -> None:
    """Answer until standard input ends."""
    # whatever a judge's libraries print is no answer
    out = _Out(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    setup = from_json(sys.argv[1].encode(), Setup)
    work = _Work(setup, out)
    work.start()
    for line in sys.stdin.buffer:
        request = from_json(line, Request)
        if isinstance(request, Stop):
            work.stop()
        elif isinstance(request, Expecting):
            work.expect(request)
        else:
            work.ask(request)
    work.end()
    work.join(timeout=10)


if __name__ == "__main__":
    main()
