# SPDX-License-Identifier: Apache-2.0
"""One user of a GPU at a time, whatever happens to them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from warplens_tools.errors import CancelledError, TimeLimitError
from warplens_tools.process.cancel import CancelToken
from warplens_tools.process.task import Task
from warplens_tools.run.gpu_lock import gpu_lock, holder

HOLD = """
import sys, time
from warplens_tools.run.gpu_lock import gpu_lock
with gpu_lock("GPU-1", "judging scale"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_LOCKS", str(tmp_path))


def test_a_killed_holder_leaves_no_lock() -> None:
    other = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == "held\n"
        held = holder("GPU-1")
        assert held is not None
        assert (held.pid, held.what) == (other.pid, "judging scale")
        said: list[str] = []
        with (
            pytest.raises(TimeLimitError, match=rf"judging scale \(process {other.pid}\)"),
            gpu_lock("GPU-1", "mine", timeout=0.2, task=Task(lambda text, _: said.append(text))),
        ):
            pass
        words = rf"waiting for the GPU, in use by judging scale \(process {other.pid}\) for \d+ s"
        assert re.fullmatch(words, said[0])
        with gpu_lock("GPU-2", "another card", timeout=1):
            pass
    finally:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        other.stdout.close()
    with gpu_lock("GPU-1", "mine", timeout=5):
        mine = holder("GPU-1")
        assert mine is not None
        assert mine.pid == os.getpid()
    assert holder("GPU-1") is None


def test_those_who_share_it_do_so_until_somebody_waits_to_have_it_alone() -> None:
    had: list[str] = []
    waits, has = threading.Event(), threading.Event()

    def alone() -> None:
        with gpu_lock("GPU-1", "timing", task=Task(lambda *_: waits.set())):
            had.append("alone")
            has.set()

    other = threading.Thread(target=alone)
    with gpu_lock("GPU-1", "comparing", shared=True), gpu_lock("GPU-1", "comparing", shared=True, timeout=5):
        other.start()
        assert waits.wait(PATIENCE)
        with (
            pytest.raises(TimeLimitError, match="in use by comparing"),
            gpu_lock("GPU-1", "one more", shared=True, timeout=0.1),
        ):
            had.append("one more")
        assert had == []
    assert has.wait(PATIENCE)
    other.join()
    with gpu_lock("GPU-1", "comparing again", shared=True, timeout=5):
        had.append("shared")
    assert had == ["alone", "shared"]


def test_waiting_can_be_cancelled() -> None:
    token = CancelToken()
    token.cancel()
    with pytest.raises(CancelledError), gpu_lock("GPU-1", "mine", task=Task(token=token)):
        pass
