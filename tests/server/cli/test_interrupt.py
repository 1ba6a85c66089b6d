# SPDX-License-Identifier: Apache-2.0
"""A command that is told to end leaves nothing: no compiler, no work folder."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.patience import PATIENCE

#: A unit that nvcc is busy with for long enough.
SLOW = "template <int N> struct S { static __device__ int f(int x) { return S<N - 1>::f(x * N) + S<N - 2>::f(x); } };\n"
SLOW += "template <> struct S<0> { static __device__ int f(int x) { return x; } };\n"
SLOW += "template <> struct S<1> { static __device__ int f(int x) { return x + 1; } };\n"
SLOW += "__global__ void k(int *x) { *x = S<600>::f(*x); }\n"

pytestmark = pytest.mark.compiler


def until(ready: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ready():
            return True
        time.sleep(0.02)
    return False


def alive(processes: list[psutil.Process]) -> bool:
    return any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


def start(tmp_path: Path, **options: object) -> tuple[subprocess.Popen[bytes], list[psutil.Process], Path]:
    """A check whose compiler runs, what runs below it, and its cache."""
    (tmp_path / "k.cu").write_text(SLOW)
    cache = tmp_path / "cache"
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "warplens", "check", "k.cu", "--arch", "sm_90"],
        cwd=tmp_path,
        env=os.environ | {"WARPLENS_CACHE": str(cache)},
        **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL) | options,  # type: ignore[call-overload]
    )
    found: list[psutil.Process] = []

    def compiling() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):  # one that has ended since it was listed
            found[:] = psutil.Process(process.pid).children(recursive=True)
            return any("cicc" in p.name() for p in found)
        return False

    assert until(compiling)
    return process, found, cache


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.sampled(1)
def test_a_signal_ends_everything_and_cleans_up(tmp_path: Path, number: signal.Signals) -> None:
    process, below, cache = start(tmp_path)
    process.send_signal(number)
    assert process.wait(timeout=PATIENCE) == 128 + number
    assert until(lambda: not alive(below), 60)
    assert list((cache / "binary" / "work").iterdir()) == []


def test_the_terminals_end_ends_everything(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process, below, cache = start(
        tmp_path, stdout=theirs, stderr=theirs, stdin=theirs, start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(1, __import__("termios").TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    os.close(ours)
    assert process.wait(timeout=PATIENCE) == 128 + signal.SIGHUP
    assert until(lambda: not alive(below), 60)
    assert list((cache / "binary" / "work").iterdir()) == []


def test_a_kill_by_force_leaves_no_compiler_and_the_next_run_cleans_up(tmp_path: Path) -> None:
    process, below, cache = start(tmp_path)
    process.kill()
    process.wait()
    assert until(lambda: not alive(below), 60)
    assert any(path.is_dir() for path in (cache / "binary" / "work").iterdir())
    (tmp_path / "k.cu").write_text("__global__ void k(int *x) { *x = 1; }\n")
    again = [sys.executable, "-P", "-m", "warplens", "check", "k.cu", "-q", "--arch", "sm_90"]
    done = subprocess.run(again, cwd=tmp_path, env=os.environ | {"WARPLENS_CACHE": str(cache)}, check=False)
    assert done.returncode == 0
    assert list((cache / "binary" / "work").iterdir()) == []


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize(("call", "status"), [("silence_broken()", 7), ("0", 120)])
def test_what_a_stream_did_not_take_changes_no_status(stream: str, call: str, status: int) -> None:
    """It is left in a buffer, which the interpreter writes once more when it ends: 120 is its status then."""
    code = f"import sys; from warplens.cli.streams import silence_broken; sys.{stream}.write('x'); {call}; sys.exit(7)"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", code], env=buffered, **{stream: full}, check=False)  # type: ignore[call-overload]
    assert done.returncode == status
