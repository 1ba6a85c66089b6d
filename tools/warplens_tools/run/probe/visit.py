# SPDX-License-Identifier: Apache-2.0
"""Runs a program with the probe inside, and passes its records on as they come."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec

from warplens_tools.errors import CancelledError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.run import Completed, run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.probe.job import Job, encode_job
from warplens_tools.run.probe.records import (
    Arrived,
    BaselineRecord,
    Begin,
    Opened,
    Pulse,
    Record,
    RecordReader,
)

#: Seconds between looks at the result file: short against one candidate's time.
_POLL = 0.02
#: And until the program waits for the card, which may rest meanwhile.
_POLL_AT_GATE = 0.004


class Command(msgspec.Struct, frozen=True):
    """How a program is started."""

    arguments: tuple[str, ...]
    directory: str
    #: Added to the process's own environment, or all there is.
    environment: dict[str, str] = {}
    inherits: bool = True


class ProbeRun(msgspec.Struct, frozen=True):
    """One run with the probe. `completed` is None when it had to be killed, `stalled` then names the
    candidate that nothing was heard of ("" before the first)."""

    records: tuple[Record, ...]
    completed: Completed | None
    stalled: str = ""


def environment_of(command: Command) -> dict[str, str]:
    """The environment a program runs in."""
    return {**os.environ, **command.environment} if command.inherits else dict(command.environment)


def run_with_probe(
    command: Command,
    job: Job,
    library: Path,
    *,
    timeout: float,
    stall: float | None = None,
    task: Task = UNATTENDED,
    on_record: Callable[[Record], None] | None = None,
    on_arrival: Callable[[], object] | None = None,
) -> ProbeRun:
    """Run `command` with the probe; `timeout` in seconds for the whole run, but for what `on_arrival` takes.

    Args:
        on_arrival: called once, in this thread, when the program is about to use the card, which it does after that
            alone; None where it may at once.
        stall: seconds that learning the baseline, or a candidate, may go without a record before the program is
            killed, beside what `Opened` and `Begin` say that one launch or round may take; None for no limit.
        on_record: gets each record once, in this thread.

    Raises:
        MissingToolError: the program does not exist.
        CancelledError: as named.
    """
    result = Path(job.result)
    # beside the result file, never a fixed name: several runs may go on at once
    job_file = result.with_suffix(".job")
    if on_arrival is not None:
        job = msgspec.structs.replace(job, gate=str(result.with_suffix(".go")))
    job_file.write_text(encode_job(job), encoding="utf-8")
    environment = {
        **environment_of(command),
        "CUDA_INJECTION64_PATH": str(library),
        "WARPLENS_JOB": str(job_file),
    }
    visit, reader = Task(), RecordReader(result)
    following = _Following(reader, timeout, stall, on_record, Path(job.gate), on_arrival)
    remove = task.token.on_cancel(visit.token.cancel)
    try:
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(_run, command, environment, visit)
            try:
                following.until_end(future, visit.token)
            except BaseException:
                visit.token.cancel()
                raise
            completed = future.result()
    finally:
        remove()
    task.check()
    return ProbeRun(tuple(reader.records), completed, following.running)


def _run(command: Command, environment: Mapping[str, str], task: Task) -> Completed | None:
    directory = Path(command.directory) if command.directory else None
    try:
        return run(die_with_parent(command.arguments), cwd=directory, env=environment, task=task)
    except CancelledError:
        return None


class _Following:
    """Passes records on until the program ends, and ends it where it takes too long."""

    def __init__(
        self,
        reader: RecordReader,
        timeout: float,
        stall: float | None,
        on_record: Callable[[Record], None] | None,
        gate: Path,
        on_arrival: Callable[[], object] | None,
    ) -> None:
        self._reader, self._stall, self._on_record = reader, stall, on_record
        self._gate, self._on_arrival = gate, on_arrival
        self._end = time.monotonic() + timeout
        self._heard, self._silent = time.monotonic(), 0.0
        #: The candidate that was heard of last and has not ended.
        self.running = ""
        self._learning = False

    def until_end(self, future: Future[Completed | None], stop: CancelToken) -> None:
        """Follow the run that `future` is; `stop` ends it."""
        while True:
            ended = future.done()
            for record in self._reader.read():
                self._take(record, ended=ended)
            if ended:
                return
            if self._late(time.monotonic()):
                stop.cancel()
            time.sleep(_POLL if self._on_arrival is None else _POLL_AT_GATE)

    def _take(self, record: Record, *, ended: bool) -> None:
        if isinstance(record, Arrived):
            # nobody waits any more where the program ended; another process of it says nothing of a candidate
            if not ended:
                self._open_gate()
        else:
            self._heard = time.monotonic()
            if isinstance(record, Opened):
                self._learning, self._silent = True, record.silent_seconds
            elif isinstance(record, BaselineRecord | Begin):
                self._learning = False
            if isinstance(record, Begin):
                self.running, self._silent = record.candidate, record.silent_seconds
            elif not isinstance(record, Pulse):
                self.running = ""
        if self._on_record is not None:
            self._on_record(record)

    def _open_gate(self) -> None:
        """Let the program go on once its caller is ready for it; what that takes is not the program's time."""
        arrived, asked, self._on_arrival = time.monotonic(), self._on_arrival, None
        if asked is not None:
            asked()
            self._gate.touch()
            self._end += time.monotonic() - arrived

    def _late(self, now: float) -> bool:
        if now > self._end:
            return True
        busy = self.running != "" or self._learning
        return self._stall is not None and busy and now - self._heard > self._stall + self._silent
