# SPDX-License-Identifier: Apache-2.0
"""Lanes on this machine: worker processes, each with a judge of its own, a few to a card."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import msgspec
import psutil

from warplens.measure.confirm import Confirmation
from warplens.measure.pool.messages import (
    Answer,
    Baselined,
    Confirmed,
    Confirming,
    Done,
    Expecting,
    Failed,
    Judging,
    LostError,
    Request,
    Said,
    Setup,
    Stop,
    Told,
    raised,
)
from warplens.measure.pool.pool import CHUNK, Pool
from warplens.measure.session import Baseline
from warplens.measure.verdict import Candidate, Verdict
from warplens_tools.decode import from_json
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.task import Task

#: Seconds a lane has to end what it was asked to stop, before its worker is killed.
_STOPPING = 20.0
#: Workers of a card: one compiles while the other measures. Processes, since half of what a build takes of this
#: program's own time would hold up the other lane's as threads of one.
LANES = 2
#: Workers of a card that shall judge as many as it can: a batch takes longer to build than to measure, so that two let
#: the card rest (246 candidates a minute on one program, 301 with three, on H200s). A third has 8 more candidates in
#: hand before anything is learned of them.
MOST_LANES = 3


class LocalLane:
    """A worker process that sees one card alone; used by one thread at a time."""

    def __init__(self, setup: Setup, card: str) -> None:
        """`card`: its UUID, or whatever CUDA_VISIBLE_DEVICES takes; "" leaves that as it is."""
        self.card = card
        self.confirmation_seconds = self.confirmation_about = 0.0
        self._inbox: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._writing = threading.Lock()
        environment = dict(os.environ) | ({"CUDA_VISIBLE_DEVICES": card} if card else {})
        command = [
            sys.executable,
            "-P",
            "-m",
            "warplens.measure.pool.worker",
            msgspec.json.encode(setup).decode(),
        ]
        self._process = subprocess.Popen(
            die_with_parent(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._lost = threading.Event()
        self._reader.start()

    @property
    def lost(self) -> bool:
        """Whether nothing more comes of it: its process ended."""
        return self._lost.is_set()

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """These are likely judged first. That a worker ended is said by what is asked of it."""
        with contextlib.suppress(LostError):
            self._send(Expecting(tuple(candidates)))

    def baseline(self, task: Task) -> Baseline:
        """Measure the baseline on its card.

        Raises:
            LostError: the worker ended.
            As `Judge.baseline`.
        """
        found: list[Baseline] = []

        def take(answer: Answer) -> None:
            if isinstance(answer, Baselined) and answer.baseline is not None:
                found.append(answer.baseline)

        self._ask(Baselined(), take, task)
        return found[0]

    def judge(self, candidates: Sequence[Candidate], told: Callable[[Verdict], None], task: Task) -> None:
        """Judge candidates; `told` gets each verdict as it is known. Raises as `baseline`."""

        def take(answer: Answer) -> None:
            if isinstance(answer, Told):
                told(answer.verdict)

        self._ask(Judging(tuple(candidates)), take, task)

    def confirm(self, candidate: Candidate, task: Task) -> Confirmation:
        """Measure a winner again. Raises as `baseline`."""
        found: list[Confirmation] = []

        def take(answer: Answer) -> None:
            if isinstance(answer, Confirmed):
                found.append(answer.confirmation)

        self._ask(Confirming(candidate), take, task)
        return found[0]

    def kill(self) -> None:
        """End the worker and all below it, now."""
        with contextlib.suppress(psutil.Error):
            # the guard in front of it then kills what is below
            for worker in psutil.Process(self._process.pid).children():
                worker.kill()

    def end(self) -> None:
        """Ask for nothing more; what it does it may end."""
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def close(self) -> None:
        """Let it end by itself, for a while."""
        self.end()
        try:
            self._process.wait(timeout=_STOPPING)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        self._reader.join(timeout=5)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _send(self, request: Request) -> None:
        try:
            with self._writing:
                assert self._process.stdin is not None
                self._process.stdin.write(msgspec.json.encode(request) + b"\n")
                self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise self._ended() from error

    def _ask(self, request: Request, take: Callable[[Answer], None], task: Task) -> None:
        self._send(request)
        stopping = threading.Timer(_STOPPING, self.kill)
        stopping.daemon = True

        def stop() -> None:
            with contextlib.suppress(LostError):
                self._send(Stop())
            stopping.start()

        remove = task.token.on_cancel(stop)
        try:
            self._receive(take, task)
        finally:
            remove()
            stopping.cancel()

    def _receive(self, take: Callable[[Answer], None], task: Task) -> None:
        while True:
            # a worker that ended before it was asked leaves an empty inbox
            answer = None if self.lost and self._inbox.empty() else self._inbox.get()
            if answer is None:
                task.check()
                raise self._ended()
            if isinstance(answer, Done):
                self.confirmation_seconds = max(self.confirmation_seconds, answer.confirmation_seconds)
                self.confirmation_about = max(self.confirmation_about, answer.confirmation_about)
                return
            if isinstance(answer, Failed):
                raise raised(answer)
            if isinstance(answer, Said):
                task.say(answer.message)
            else:
                take(answer)

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        with contextlib.suppress(ValueError, OSError, msgspec.MsgspecError):
            for line in stream:
                self._inbox.put(from_json(line, Answer))
        self._lost.set()
        self._inbox.put(None)

    def _ended(self) -> LostError:
        return LostError(f"a worker of {self.card or 'the card'} ended")


def local_pool(setup: Setup, cards: Sequence[str], lanes_each: int = LANES, *, chunk: int = CHUNK) -> Pool:
    """A pool of so many lanes of each card, with `chunk` candidates at a time at most; `cards` are UUIDs."""
    lanes = [LocalLane(setup, card) for card in cards for _ in range(lanes_each)]

    def close() -> None:
        for lane in lanes:
            lane.end()
        for lane in lanes:
            lane.close()

    return Pool(lanes, close, chunk=chunk)
