# SPDX-License-Identifier: Apache-2.0
"""Runs a program with the probe inside, and passes its records on as they come."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import msgspec

from warplens_tools.errors import CancelledError, TimeLimitError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.run import Completed, run
from warplens_tools.process.task import UNATTENDED, Task
from warplens_tools.run.probe.job import Job, encode_job
from warplens_tools.run.probe.records import Begin, Pulse, Record, RecordReader

#: Seconds between looks at the result file: short against one candidate's time.
_POLL = 0.02


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
) -> ProbeRun:
    """Run `command` with the probe; `timeout` in seconds for the whole run.

    Args:
        stall: seconds a candidate may go without a record before the program is killed, beside what `Begin` says
            that one round may take; None for no limit.
        on_record: gets each record once, in this thread.

    Raises:
        MissingToolError: the program does not exist.
        CancelledError: as named.
    """
    result = Path(job.result)
    # beside the result file, never a fixed name: several runs may go on at once
    job_file = result.with_suffix(".job")
    job_file.write_text(encode_job(job), encoding="utf-8")
    environment = {
        **environment_of(command),
        "CUDA_INJECTION64_PATH": str(library),
        "WARPLENS_JOB": str(job_file),
    }
    visit, reader = Task(), RecordReader(result)
    remove = task.token.on_cancel(visit.token.cancel)
    try:
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(_run, command, environment, timeout, visit)
            stalled = _follow(future, reader, visit.token, stall, on_record)
            completed = future.result()
    finally:
        remove()
    task.check()
    return ProbeRun(tuple(reader.records), completed, stalled)


def _run(command: Command, environment: Mapping[str, str], timeout: float, task: Task) -> Completed | None:
    directory = Path(command.directory) if command.directory else None
    try:
        return run(
            die_with_parent(command.arguments), cwd=directory, env=environment, timeout=timeout, task=task
        )
    except (TimeLimitError, CancelledError):
        return None


def _follow(
    future: Future[Completed | None],
    reader: RecordReader,
    stop: CancelToken,
    stall: float | None,
    on_record: Callable[[Record], None] | None,
) -> str:
    """Pass records on until the program ends; the candidate it was killed for, "" if it was not."""
    heard, running, silent = time.monotonic(), "", 0.0
    while True:
        ended = future.done()
        for record in reader.read():
            heard = time.monotonic()
            if isinstance(record, Begin):
                running, silent = record.candidate, record.silent_seconds
            elif not isinstance(record, Pulse):
                running = ""
            if on_record is not None:
                on_record(record)
        if ended:
            return running
        if stall is not None and running and time.monotonic() - heard > stall + silent:
            stop.cancel()
        time.sleep(_POLL)
