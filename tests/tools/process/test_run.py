# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from warplens_tools.errors import CancelledError, MissingToolError, TimeLimitError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.run import run
from warplens_tools.process.task import Task

#: Starts a child that starts a grandchild in a session of its own, writes its id, and sleeps.
FAMILY = """\
import subprocess, sys, time
child = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
subprocess.Popen([sys.executable, "-c", child, sys.argv[1]], start_new_session=True)
time.sleep(60)
"""


def test_status_and_both_outputs() -> None:
    done = run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin="in")
    assert (done.status, done.stdout, done.stderr) == (3, "in", "err\n")


def test_lines_are_given_as_they_come(tmp_path: Path) -> None:
    seen: list[str] = []

    def take(line: str) -> None:
        # the program goes on only when its first line has come here
        (tmp_path / "seen").touch()
        seen.append(line)

    script = "echo one; echo warn >&2; until [ -e seen ]; do sleep 0.02; done; echo two"
    done = run(["sh", "-c", script], cwd=tmp_path, on_line=take, timeout=90)
    assert seen == ["one", "two"]
    assert (done.stdout, done.stderr) == ("one\ntwo\n", "warn\n")


@pytest.mark.parametrize("path", ["/nowhere/tool", "/etc/hostname"])
def test_what_cannot_be_started_is_a_missing_tool(path: str) -> None:
    with pytest.raises(MissingToolError):
        run([path])


@pytest.mark.parametrize("lines", [False, True])
def test_a_time_limit_kills_the_whole_family(tmp_path: Path, lines: bool) -> None:
    note = tmp_path / "pid"
    before = _open_files()
    for limit in (1, 15, 60):
        with pytest.raises(TimeLimitError, match=f"after {limit} s"):
            run([sys.executable, "-c", FAMILY, note], timeout=limit, on_line=print if lines else None)
        # on a busy machine the family may take longer to start
        if note.exists() and note.read_text():
            break
    assert not _alive(int(note.read_text()))
    assert _open_files() == before


def test_cancel_kills_at_once(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    token = CancelToken()

    def cancel_when_started() -> None:
        while not (note.exists() and note.read_text()):
            time.sleep(0.01)
        token.cancel()

    thread = threading.Thread(target=cancel_when_started)
    thread.start()
    started = time.monotonic()
    with pytest.raises(CancelledError):
        run([sys.executable, "-c", FAMILY, note], task=Task(token=token), timeout=90)
    thread.join()
    # the family would have slept for a minute
    assert time.monotonic() - started < 50
    assert not _alive(int(note.read_text()))


def test_a_cancelled_token_starts_nothing(tmp_path: Path) -> None:
    token = CancelToken()
    token.cancel()
    with pytest.raises(CancelledError):
        run(["touch", tmp_path / "made"], task=Task(token=token))
    assert not (tmp_path / "made").exists()


def _open_files() -> int:
    return psutil.Process().num_fds()


def _alive(pid: int) -> bool:
    for _ in range(1000):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.02)
    return True
