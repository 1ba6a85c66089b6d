# SPDX-License-Identifier: Apache-2.0
"""Runs one program in a process group of its own, so that a stop reaches everything it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import msgspec
import psutil

from warplens_tools.errors import MissingToolError, TimeLimitError
from warplens_tools.process.reaper import Reaper
from warplens_tools.process.task import UNATTENDED, Task

_REAPER = Reaper()


class Completed(msgspec.Struct, frozen=True):
    """A finished run. Output is decoded as UTF-8 with replacement."""

    arguments: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    seconds: float


def run(
    arguments: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    task: Task = UNATTENDED,
    stdin: str | None = None,
    on_line: Callable[[str], None] | None = None,
    on_start: Callable[[], None] | None = None,
) -> Completed:
    """Run a program to its end; `timeout` in seconds. A non-zero status is the caller's to judge.

    `on_line` gets every line of its standard output as it comes, from another thread. `on_start` is called
    once it runs, from this thread: work that need not wait for it, and should be brief.

    Raises:
        MissingToolError: there is no such program.
        TimeLimitError: it ran longer than `timeout` and was killed with its children.
        CancelledError: `task` was stopped; it was killed with its children.
    """
    command = tuple(str(a) for a in arguments)
    started = time.monotonic()
    task.check()
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise MissingToolError(f"{command[0]} was not found") from error
    except OSError as error:
        raise MissingToolError(f"{command[0]} cannot be started: {error.strerror}") from error
    remove: Callable[[], None] | None = None
    try:
        with _REAPER.watching(process.pid):
            remove = task.token.on_cancel(lambda: kill_tree(process))
            if on_start is not None:
                on_start()
            out, err = _communicate(process, stdin, timeout, on_line)
    except subprocess.TimeoutExpired as error:
        raise TimeLimitError(f"{Path(command[0]).name} was stopped after {timeout:g} s") from error
    finally:
        if remove is not None:
            remove()
        kill_tree(process)
        _close_pipes(process)
    task.check()
    return Completed(
        arguments=command,
        status=process.returncode,
        stdout=out.decode("utf-8", errors="replace"),
        stderr=err.decode("utf-8", errors="replace"),
        seconds=time.monotonic() - started,
    )


def _communicate(
    process: subprocess.Popen[bytes],
    stdin: str | None,
    timeout: float | None,
    on_line: Callable[[str], None] | None,
) -> tuple[bytes, bytes]:
    """Both outputs; with `on_line` the standard output is read here, line by line, as it comes."""
    if on_line is None or process.stdout is None:
        return process.communicate(None if stdin is None else stdin.encode(), timeout=timeout)
    stdout, process.stdout = process.stdout, None
    lines: list[bytes] = []
    reader = threading.Thread(target=_read_lines, args=(stdout, lines, on_line), daemon=True)
    reader.start()
    try:
        _, err = process.communicate(None if stdin is None else stdin.encode(), timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_tree(process)
        raise
    finally:
        reader.join(timeout=10)
        stdout.close()
    return b"".join(lines), err


def _read_lines(stream: IO[bytes], lines: list[bytes], on_line: Callable[[str], None]) -> None:
    for line in stream:
        lines.append(line)
        on_line(line.decode("utf-8", errors="replace").rstrip("\r\n"))


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    """After a kill nobody reads what is left in the pipes."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process started in its own session and everything below it, then reap it.

    Children that left the process group (a wrapper's own `setsid`) are found through their parents.
    """
    below: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        below = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for child in below:
        with contextlib.suppress(psutil.Error):
            child.kill()
    if process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
