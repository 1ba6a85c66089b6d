# SPDX-License-Identifier: Apache-2.0
"""`check --watch`: looks again when a file changes, until it is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue

from tests.patience import PATIENCE
from tests.server.cli.bad_input import KERNEL


def test_a_change_is_looked_at(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(KERNEL)
    options = ["--tier", "source", "--format", "concise", "--watch"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "warplens", "check", ".", *options],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    lines: Queue[str] = Queue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert "waiting for a change" in lines.get(timeout=PATIENCE)
        source.write_text(KERNEL.replace("2.0f", "2.0"))
        assert "WL301 double-in-float-kernel" in lines.get(timeout=PATIENCE)
        assert "waiting for a change" in lines.get(timeout=PATIENCE)
        (tmp_path / "warplens.toml").write_text("tier = 3\n")
        assert lines.get(timeout=PATIENCE).startswith("warplens: ")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE) == 128 + signal.SIGINT
    finally:
        process.kill()
        process.wait()
        reader.join(timeout=10)
        if process.stdout is not None:
            process.stdout.close()
