# SPDX-License-Identifier: Apache-2.0
"""A client that misbehaves: `python -m tests.server.lsp.fuzz [--messages N] [--seed S] [--json FILE]`.

Messages that are malformed, out of order, cancelled and cut, against the real server. It must answer a sound request
after every hundred of them, keep its memory, and end in time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

COMMAND = [sys.executable, "-P", "-m", "warplens", "lsp"]
KERNEL = (
    "__global__ void scale(float* a, int n) {\n  int i = threadIdx.x;\n  if (i < n) a[i] = a[i] * 2.0;\n}\n"
)
_METHODS = (
    "textDocument/hover",
    "textDocument/codeLens",
    "textDocument/codeAction",
    "textDocument/inlayHint",
    "textDocument/definition",
    "textDocument/documentSymbol",
    "workspace/symbol",
    "workspace/executeCommand",
    "codeLens/resolve",
    "textDocument/didChange",
    "textDocument/didOpen",
    "textDocument/didClose",
    "textDocument/didSave",
    "workspace/didChangeConfiguration",
    "workspace/didChangeWatchedFiles",
    "initialize",
    "initialized",
    "warplens/didChangeTrust",
    "no/such/method",
    "$/cancelRequest",
)


def frame(body: bytes | str, *, length: int | None = None, header: str = "Content-Length") -> bytes:
    """A message with its header."""
    data = body.encode() if isinstance(body, str) else body
    return f"{header}: {len(data) if length is None else length}\r\n\r\n".encode() + data


class Peer:
    """The server, and what it answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.errors = folder / "stderr"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self.answers: dict[Any, dict[str, Any]] = {}
        self.codes = Counter[int]()
        self._arrived = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        self._count = 0

    def send(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def notify(self, method: str, params: Any) -> None:
        """A sound notification."""
        self.send(frame(json.dumps({"jsonrpc": "2.0", "method": method, "params": params})))

    def ask(self, method: str, params: Any = None, seconds: float = 60) -> dict[str, Any]:
        """A sound request, and its answer.

        Raises:
            TimeoutError: there was none.
        """
        self._count += 1
        name = f"sound-{self._count}"
        self.send(frame(json.dumps({"jsonrpc": "2.0", "id": name, "method": method, "params": params})))
        return self.answer(name, seconds)

    def answer(self, name: Any, seconds: float = 60) -> dict[str, Any]:
        """The answer to a request.

        Raises:
            TimeoutError: there was none.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: name in self.answers, seconds):
                raise TimeoutError(f"no answer to {name}")
        return self.answers[name]

    def begin(self) -> None:
        """Open a session."""
        self.ask("initialize", {"processId": None, "rootUri": self.folder.as_uri(), "capabilities": {}})
        self.notify("initialized", {})

    def end(self, seconds: float = 30) -> tuple[int, float]:
        """Shut down in order; exit status and seconds."""
        started = time.monotonic()
        self.ask("shutdown")
        self.notify("exit", None)
        return self.process.wait(seconds), time.monotonic() - started

    def close(self) -> None:
        """Let go of the server, dead or alive."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while header := stream.readline():
            match = re.match(rb"Content-Length: (\d+)", header)
            if match is None:
                continue
            while stream.readline().strip():
                pass
            message = json.loads(stream.read(int(match[1])))
            if "method" in message:
                continue
            with self._arrived:
                self.codes[(message.get("error") or {}).get("code", 0)] += 1
                self.answers[message.get("id")] = message
                self._arrived.notify_all()


class Fuzz:
    """Bad messages, from a seed."""

    def __init__(self, seed: int, uri: str) -> None:
        self.random = random.Random(seed)
        self.uri = uri
        self._count = 0

    def message(self) -> bytes:
        """One of them, or several bytes that are none."""
        pick = self.random.random()
        body = self._body()
        if pick < 0.75:
            return frame(body)
        if pick < 0.85:
            return frame(body, length=max(len(body) + self.random.randint(-9, 9), 0))
        if pick < 0.90:
            return self.random.choice(
                (
                    frame(body, header="content-length"),
                    frame(body).replace(b"\r\n", b"\n"),
                    b"X-Other: 1\r\n" + frame(body),
                    frame(body, header="Content-Type: x\r\nContent-Length"),
                )
            )
        if pick < 0.95:
            cut = self.random.randint(0, len(body))
            return frame(body)[: -cut or None]
        return self.random.choice(
            (
                b"Content-Length: 1000000000000\r\n\r\n",
                b"Content-Length: 0\r\n\r\n",
                b"Content-Length: -5\r\n\r\n",
                b"Content-Length: many\r\n\r\n",
                b"GET / HTTP/1.1\r\n\r\n",
                b"\x00\xff\xfe garbage \r\n\r\n",
                frame(b"[1, 2"),
                frame(b"\xff\xfe\xfd"),
                frame("[" * 5000),
            )
        )

    def _body(self) -> bytes:
        self._count += 1
        message: Any = {"jsonrpc": "2.0", "method": self.random.choice(_METHODS), "params": self._params()}
        if self.random.random() < 0.6:
            message["id"] = self.random.choice((self._count, f"id{self._count}"))
        kind = self.random.randrange(14)
        if kind == 0:
            del message["params"]
        elif kind == 1:
            message["jsonrpc"] = self.random.choice(("1.0", 2, None))
        elif kind == 2:
            message["method"] = self.random.choice((None, 5, [], ""))
        elif kind == 3:
            message["id"] = self.random.choice((None, [], {}, 1.5, True))
        elif kind == 4:
            message = self.random.choice(([], [message], 5, None, "text", {}, {"jsonrpc": "2.0"}))
        elif kind == 5:
            message = {
                "jsonrpc": "2.0",
                "id": self._count,
                self.random.choice(("result", "error")): {"code": 1},
            }
        return json.dumps(message).encode()

    def _params(self) -> Any:
        position = {
            "line": self.random.choice((0, 2, 99999, -1, "x")),
            "character": self.random.choice((0, 7, -3)),
        }
        sound = {
            "textDocument": {
                "uri": self.random.choice((self.uri, "untitled:1", "", 5)),
                "version": self._count,
            },
            "position": position,
            "range": {"start": position, "end": position},
            "context": {"diagnostics": []},
            "contentChanges": [{"text": KERNEL}],
            "query": "scale",
            "command": self.random.choice(("warplens.doctor", "warplens.showEvidence", "none")),
            "arguments": self.random.choice(([], [{}], [{"uri": self.uri, "kernel": "scale"}], "x")),
            "id": self.random.choice((self._count - 1, "id1", None)),
            "changes": [{"uri": self.uri, "type": 2}],
            "capabilities": {},
        }
        return self.random.choice((sound, sound, sound, {}, [], None, 5, "text", {"textDocument": None}))


def run(folder: Path, messages: int, seed: int) -> dict[str, Any]:
    """Send them all; what came of it.

    Raises:
        AssertionError: the server was deaf, or gone.
    """
    path = folder / "k.cu"
    path.write_text(KERNEL)
    peer = Peer(folder)
    peer.begin()
    fuzz = Fuzz(seed, path.as_uri())
    opened = {"uri": path.as_uri(), "languageId": "cuda-cpp", "version": 1, "text": KERNEL}
    most = 0
    slowest = 0.0
    for number in range(messages):
        peer.send(fuzz.message())
        if number % 100 == 99:
            peer.notify("textDocument/didOpen", {"textDocument": opened})
            started = time.monotonic()
            symbols = peer.ask("workspace/symbol", {"query": "zzz"})
            slowest = max(slowest, time.monotonic() - started)
            assert "result" in symbols, symbols
            most = max(most, psutil.Process(peer.process.pid).memory_info().rss)
    status, seconds = peer.end()
    peer.close()
    return {
        "messages": messages,
        "seed": seed,
        "answers_by_error_code": {str(code): count for code, count in sorted(peer.codes.items())},
        "slowest_sound_answer_s": round(slowest, 2),
        "most_resident_mb": round(most / 1e6, 1),
        "stderr_kb": round(peer.errors.stat().st_size / 1e3, 1),
        "exit_status": status,
        "exit_s": round(seconds, 2),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the result here too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ.setdefault("WARPLENS_HOME", name)
        result = json.dumps(run(Path(name), arguments.messages, arguments.seed), indent=1)
    if arguments.json:
        arguments.json.write_text(result + "\n")
    sys.stdout.write(result + "\n")


if __name__ == "__main__":
    main()
