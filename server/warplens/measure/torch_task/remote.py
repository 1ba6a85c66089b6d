# SPDX-License-Identifier: Apache-2.0
"""The examiner's end of a worker: starts it, asks it, bounds it. Imported by `examiner.py` from beside it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import site
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


class WorkerError(Exception):
    """What became of a worker, as a verdict's state and reason."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(reason)
        self.state, self.reason = state, reason


#: Variables that a candidate's process keeps: where programs and libraries are, how CUDA and OpenMP work.
_KEPT = re.compile(
    r"PATH|LD_LIBRARY_PATH|LANG|LC_\w+|TZ|USER|CUDA\w*|NVIDIA_\w+|OMP_\w+|CC|CXX|MAX_JOBS|TORCH_CUDA_\w+"
)


class Fence:
    """Holds a process to one folder: no network, no other files but PyTorch's, the compilers' and what is named."""

    def __init__(self, said: dict[str, Any]) -> None:
        """`said`: the sandbox's command with the end of its options, the folder, and where extensions are built."""
        *self._command, self._end = said["command"]
        self.folder, self._builds = said["folder"], said["builds"]

    def around(self, command: list[str]) -> list[str]:
        """The command with the sandbox in front."""
        python = [
            sys.prefix,
            sys.base_prefix,
            sys.exec_prefix,
            *site.getsitepackages(),
            str(Path(__file__).parent),
        ]
        libraries = [p for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
        tools = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
        read = [word for place in (*python, *libraries, *tools) for word in ("read", place)]
        return [*self._command, *read, self._end, *command]

    def environment(self) -> dict[str, str]:
        """Little of this process's, and every cache in the folder."""
        kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
        path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
        own = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR"), self.folder)
        return {**kept, **own, "PATH": path, "TORCH_EXTENSIONS_DIR": self._builds}

    def last_words(self) -> str:
        """The last line that the process wrote to its errors."""
        with contextlib.suppress(OSError):
            lines = (Path(self.folder) / "stderr").read_bytes()[-4096:].decode("utf-8", "replace").split("\n")
            return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
        return ""


class Worker:
    """A process that runs one module."""

    def __init__(self, device: str, limit: float, fence: Fence | None = None) -> None:
        """`fence`: what the process is held to; None for code that is trusted."""
        self._limit, self._fence = limit, fence
        mine, theirs = socket.socketpair()
        command = [
            sys.executable,
            "-P",
            str(Path(__file__).with_name("worker.py")),
            str(theirs.fileno()),
            device,
        ]
        self._process = subprocess.Popen(
            command if fence is None else fence.around(command),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=None if fence is None else subprocess.DEVNULL,
            env=None if fence is None else fence.environment(),
            cwd=None if fence is None else fence.folder,
            start_new_session=True,
        )
        theirs.close()
        self._channel = Connection(mine.detach())

    def ask(self, do: str, *, limit: float | None = None, **fields: Any) -> dict[str, Any]:
        """One request.

        Raises:
            WorkerError: it ended, did not answer in time, or says what is wrong.
        """
        answer, _ = self.timed(do, limit=limit, **fields)
        return answer

    def timed(self, do: str, *, limit: float | None = None, **fields: Any) -> tuple[dict[str, Any], float]:
        """The answer, and the seconds that it took on this side's clock."""
        try:
            started = time.perf_counter()
            self._channel.send({"do": do, **fields})
            if not self._channel.poll(limit or self._limit):
                raise WorkerError("hung", f"it did not answer within {limit or self._limit:g} s")
            said = self._channel.recv_bytes(1 << 24)
            seconds = time.perf_counter() - started
            answer = json.loads(said)
        except (EOFError, OSError, ValueError) as error:
            raise WorkerError("crashed", self._ending()) from error
        if not isinstance(answer, dict):
            raise WorkerError("crashed", "it answers nonsense")
        if "error" in answer:
            raise WorkerError("crashed" if answer.get("raised") else "wrong", str(answer["error"])[:500])
        return answer, seconds

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _ending(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(timeout=5)
            words = self._fence.last_words() if self._fence is not None else ""
            ended = f"it was killed by signal {-status}" if status < 0 else f"it ended with status {status}"
            return f"{ended}: {words}" if words else ended
        return "it closed its channel"
