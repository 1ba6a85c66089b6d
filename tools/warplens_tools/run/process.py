"""Runs one program in a process group of its own, so that a stop reaches everything it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import psutil

from warplens_tools.errors import CancelledError, MissingToolError, TimeLimitError
from warplens_tools.run.cancel import CancelToken


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
    cancel: CancelToken | None = None,
    stdin: str | None = None,
) -> Completed:
    """Run a program to its end; `timeout` in seconds. A non-zero status is the caller's to judge.

    Raises:
        MissingToolError: there is no such program.
        TimeLimitError: it ran longer than `timeout` and was killed with its children.
        CancelledError: `cancel` was triggered; it was killed with its children.
    """
    command = tuple(str(a) for a in arguments)
    started = time.monotonic()
    if cancel is not None:
        cancel.check()
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
    except PermissionError as error:
        raise MissingToolError(f"{command[0]} is not executable") from error
    remove = cancel.on_cancel(lambda: kill_tree(process)) if cancel is not None else None
    try:
        out, err = process.communicate(None if stdin is None else stdin.encode(), timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise TimeLimitError(f"{Path(command[0]).name} was stopped after {timeout:g} s") from error
    finally:
        if remove is not None:
            remove()
        kill_tree(process)
    if cancel is not None and cancel.cancelled:
        raise CancelledError("cancelled")
    return Completed(
        arguments=command,
        status=process.returncode,
        stdout=out.decode("utf-8", errors="replace"),
        stderr=err.decode("utf-8", errors="replace"),
        seconds=time.monotonic() - started,
    )


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
