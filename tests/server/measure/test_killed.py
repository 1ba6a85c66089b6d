# SPDX-License-Identifier: Apache-2.0
"""`kill -9` of whoever judges, while it builds and while it runs: no process and no lock is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.patience import PATIENCE
from tests.processes import named

from warplens.measure.folders import remove_abandoned
from warplens_tools.run.gpu_lock import holder

#: Builds a program, or visits one, that starts a child in a session of its own and never ends.
ASKER = """
import sys
from pathlib import Path
from warplens.measure.build.fence import around_program
from warplens.measure.judge_settings import MeasureSettings
from warplens_tools.toolchain.locate import Toolchain
from warplens_tools.run.build import Overlay, build_program
from warplens_tools.run.gpu_lock import gpu_lock
from warplens_tools.process.guard import die_with_parent
from warplens_tools.run.probe.job import Job
from warplens_tools.run.probe.visit import Command, run_with_probe
from warplens_tools.run.workload import Workload

stage, folder = sys.argv[1], Path(sys.argv[2])
script = "setsid sleep 600 & sleep 600 & echo up > {0}; wait"
source = folder / "k.cu"
source.write_text("int main() {}")
if stage == "run":
    words = ("sh", "-c", script.format(folder / "up"))
    job = Job("survey", str(folder / "records.jsonl"))
    with gpu_lock("GPU-test", "judging"):
        run_with_probe(Command(words, str(folder)), job, folder / "probe.so", timeout=600)
else:
    words = ("sh", "-c", script.format("{folder}/up") + " # {source}")
    overlay = Overlay(str(source), "int main() { }") if stage == "candidate" else None
    through = around_program(folder / "build", MeasureSettings()) if overlay else die_with_parent
    work = Workload(str(source), str(source), build=words)
    build_program(
        work, toolchain=Toolchain({}, {}), arch="sm_90", folder=folder / "build", overlay=overlay, through=through
    )
"""


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def descendants(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def running(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("stage", ["baseline", "candidate", "run"])
def test_nothing_outlives_a_killed_judge(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_LOCKS", str(tmp_path / "locks"))
    asker = subprocess.Popen([sys.executable, "-c", ASKER, stage, str(tmp_path)])
    try:
        up = tmp_path / ("up" if stage == "run" else "build/up")
        wait_for(up.exists)
        # a process that is about to become `sleep` still has the shell's name
        wait_for(lambda: len(named("sleep", descendants(asker.pid))) == 2)
        below = descendants(asker.pid)
        if stage == "run":
            held = holder("GPU-test")
            assert held is not None and (held.pid, held.what) == (asker.pid, "judging")
    finally:
        os.kill(asker.pid, signal.SIGKILL)
        asker.wait()
    wait_for(lambda: not any(map(running, below)))
    assert holder("GPU-test") is None


def test_the_folders_of_killed_judges_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen(["true"])
    gone.wait()
    names = {
        f"warplens-judge-{gone.pid}-a": False,
        f"warplens-judge-{os.getpid()}-b": True,
        "warplens-judge-x-c": True,
    }
    for name in names:
        (tmp_path / name).mkdir()
    remove_abandoned()
    assert {name: (tmp_path / name).exists() for name in names} == names
