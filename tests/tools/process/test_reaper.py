# SPDX-License-Identifier: Apache-2.0
"""A process killed by force takes along what it started, and its folders go with the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from warplens_tools.process.scratch import scratch_folder

ASK = """
import sys
from warplens_tools.process.run import run
run(["sh", "-c", "echo up; sleep 300 & sleep 300"], on_line=lambda line: print(line, flush=True))
"""
HOLD = """
import sys, time
from pathlib import Path
from warplens_tools.process.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "big").write_bytes(b"x")
    print(folder, flush=True)
    time.sleep(300)
"""


def gone(processes: list[psutil.Process], seconds: float = 60) -> bool:
    """Whether all end in time."""
    until = time.monotonic() + seconds
    while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def started(process: psutil.Process, count: int, seconds: float = 60) -> list[psutil.Process]:
    """All that is below a process, once there are so many."""
    until = time.monotonic() + seconds
    while len(below := process.children(recursive=True)) < count:
        assert time.monotonic() < until, below
        time.sleep(0.02)
    return below


def test_a_kill_by_force_reaches_everything_that_was_started() -> None:
    asker = subprocess.Popen([sys.executable, "-c", ASK], stdout=subprocess.PIPE, text=True)
    assert asker.stdout is not None
    try:
        assert asker.stdout.readline() == "up\n"
        # the shell, its two children, and the watcher; the shell starts them after it has spoken
        below = started(psutil.Process(asker.pid), 4)
    finally:
        os.kill(asker.pid, signal.SIGKILL)
        asker.wait()
        asker.stdout.close()
    assert gone(below)


def test_a_killed_process_leaves_its_folder_to_the_next(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    left = Path(holder.stdout.readline().strip())
    with scratch_folder(tmp_path) as mine:
        assert left.exists(), "a living process keeps its folder"
        assert mine != left
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert left.exists()
    with scratch_folder(tmp_path) as mine:
        assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == [mine.name]
    assert list(tmp_path.iterdir()) == []


def test_old_folders_without_an_owner_go(tmp_path: Path) -> None:
    old = tmp_path / "tmpabcd"
    old.mkdir()
    os.utime(old, (0, 0))
    young = tmp_path / "tmpefgh"
    young.mkdir()
    with scratch_folder(tmp_path):
        assert not old.exists()
        assert young.exists()
