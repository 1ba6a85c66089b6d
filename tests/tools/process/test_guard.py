# SPDX-License-Identifier: Apache-2.0
"""No program outlives whoever asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.patience import PATIENCE

from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.run import run

SLEEP = """
import subprocess, time
subprocess.Popen(['sleep', '300'])
print('up', flush=True)
time.sleep(300)
"""
ASK = """
import sys
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.run import run
run(die_with_parent((sys.executable, "-c", sys.argv[1])), on_line=lambda line: print(line, flush=True))
"""


def test_a_program_runs_as_without_the_guard(tmp_path: Path) -> None:
    code = "import sys, os; print(sys.argv[1], os.getcwd()); sys.exit(3)"
    done = run(die_with_parent((sys.executable, "-c", code, "a word")), cwd=tmp_path)
    assert (done.status, done.stdout) == (3, f"a word {tmp_path}\n")


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGINT, signal.SIGXFSZ])
def test_a_programs_signal_is_its_own(number: signal.Signals) -> None:
    code = f"import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), {int(number)})"
    own = "from signal import *; signal(SIGINT, SIG_DFL); signal(SIGXFSZ, SIG_DFL)"
    plain = (sys.executable, "-I", "-c", f"{own}; {code}")
    assert run(die_with_parent(plain)).status == -number


def test_what_cannot_be_run_is_said() -> None:
    done = run(die_with_parent(("/no/such/program",)))
    assert (done.status, done.stderr) == (127, "/no/such/program was not found\n")
    done = run(die_with_parent(("/etc/hostname",)))
    assert done.status == 126


def test_a_killed_asker_leaves_no_orphan() -> None:
    asker = subprocess.Popen([sys.executable, "-c", ASK, SLEEP], stdout=subprocess.PIPE, text=True)
    assert asker.stdout is not None
    try:
        assert asker.stdout.readline() == "up\n"
        below = psutil.Process(asker.pid).children(recursive=True)
        below = [p for p in below if not any("reaper.py" in word for word in p.cmdline())]
        assert len(below) == 3
    finally:
        os.kill(asker.pid, signal.SIGKILL)
        asker.wait()
        asker.stdout.close()
    until = time.monotonic() + PATIENCE
    while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in below):
        assert time.monotonic() < until
        time.sleep(0.02)
