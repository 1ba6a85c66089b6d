# SPDX-License-Identifier: Apache-2.0
"""The settings may be read by several threads at once: without their type worked out before, half of it crashed."""

from __future__ import annotations

import subprocess
import sys

_BOTH = """
import sys, threading
import msgspec
from warplens.settings import Settings
sys.setswitchinterval(1e-6)
said = {"optimize": {"candidates": 3}, "program": [{"source": "x"}], "hints": {"registers": True}, "tier": "auto"}
barrier = threading.Barrier(4)
def read():
    barrier.wait()
    try:
        msgspec.convert(said, Settings)
    except msgspec.ValidationError:
        pass
threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_four_threads_may_read_settings_at_once() -> None:
    for _ in range(12):
        done = subprocess.run([sys.executable, "-P", "-c", _BOTH], check=False, timeout=60)
        assert done.returncode == 0
