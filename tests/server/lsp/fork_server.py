# SPDX-License-Identifier: Apache-2.0
"""Language servers forked from one process that has their imports, for the tests of a session.

A server takes most of a second to import what it needs, and most tests of a session take less for all else. What is
forked is the same code with streams of its own, in the folder and with the environment of the test; the tests of the
command itself start it anew (`Client.begin(..., fresh=True)`).

Run as a program it reads from the socket that is its standard input what to fork, each with three sockets: the server's
input and output, and one that is told the server's process id and, a line later, its exit status.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cattrs import Converter
from lsprotocol import types


class Forked:
    """A forked server, with what `asyncio.subprocess.Process` has that a client uses."""

    def __init__(
        self,
        pid: int,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        told: asyncio.StreamReader,
        writers: list[asyncio.StreamWriter],
    ) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.returncode: int | None = None
        self._told = told
        self._writers = writers
        self._ended = asyncio.create_task(self._until_the_end())

    async def wait(self) -> int:
        """Its exit status, or minus the signal that ended it."""
        return await asyncio.shield(self._ended)

    async def _until_the_end(self) -> int:
        self.returncode = int(await self._told.readline())
        for writer in self._writers:
            writer.close()
        return self.returncode


async def fork(*, sample: bool) -> Forked:
    """A new server of the sample service or of the product, in this process's folder and environment."""
    wanted = {"sample": sample, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    pairs = [socket.socketpair() for _ in range(3)]
    _ask(json.dumps(wanted).encode(), [theirs for _, theirs in pairs])
    (_, stdin), (stdout, w_out), (told, w_told) = [
        await asyncio.open_connection(sock=ours) for ours, _ in pairs
    ]
    return Forked(int(await told.readline()), stdin, stdout, told, [stdin, w_out, w_told])


def _ask(wanted: bytes, streams: list[socket.socket]) -> None:
    control, _ = _fork_server()
    control.sendall(len(wanted).to_bytes(8, "little"))
    socket.send_fds(control, [wanted[:1]], [stream.fileno() for stream in streams])
    control.sendall(wanted[1:])
    for stream in streams:
        stream.close()


@functools.cache
def _fork_server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """The process that forks, and the way to it: the one ends with the other."""
    ours, theirs = socket.socketpair()
    with theirs:
        # in a group of its own: a key that interrupts the tests is not meant for it
        command = [sys.executable, "-P", __file__]
        return ours, subprocess.Popen(
            command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, process_group=0
        )


def _serve_forks(control: socket.socket) -> None:
    """Fork what is asked for until nobody can ask any more."""
    starts = _imported()
    # nobody waits for those that mind a server
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    while size := control.recv(8, socket.MSG_WAITALL):
        first, streams, _, _ = socket.recv_fds(control, 1, 3)
        rest = control.recv(int.from_bytes(size, "little") - 1, socket.MSG_WAITALL)
        if os.fork() == 0:
            control.close()
            _mind(starts, json.loads(first + rest), *streams)
        for descriptor in streams:
            os.close(descriptor)


def _mind(
    starts: dict[bool, Callable[[], None]], wanted: dict[str, Any], stdin: int, stdout: int, told: int
) -> None:
    """Start a server, and tell who it is and how it ended; does not return."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(told)
        for number, descriptor in enumerate((stdin, stdout)):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.chdir(wanted["folder"])
        os.environ.clear()
        os.environ.update(wanted["environment"])
        starts[wanted["sample"]]()
    os.close(stdin)
    os.close(stdout)
    with contextlib.suppress(BrokenPipeError):
        os.write(told, b"%d\n" % pid)
        os.write(told, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _imported() -> dict[bool, Callable[[], None]]:
    """What starts a server, of the sample service or of the product, with all that it imports."""
    gc.disable()
    sys.path.append(str(Path(__file__).parent))
    sample = importlib.import_module("sample_service")
    serve = importlib.import_module("warplens.lsp.serve")
    connection: Any = importlib.import_module("warplens.lsp.connection")
    ready = _ready(connection.plain_converter())
    connection.plain_converter = lambda: ready
    return {True: sample.main, False: serve.main}


def _ready(converter: Converter) -> Converter:
    """The same, with what it would make when a server first meets a message of a kind."""
    for method, (request, response, _, _) in types.METHOD_TO_TYPES.items():
        if types.message_direction(method) != "serverToClient":
            converter.get_structure_hook(request)
            converter.get_unstructure_hook(response or request)
        if types.message_direction(method) != "clientToServer":
            converter.get_unstructure_hook(request)
            converter.get_structure_hook(response or request)
    return converter


if __name__ == "__main__":
    _control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _serve_forks(_control)
