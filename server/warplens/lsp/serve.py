# SPDX-License-Identifier: Apache-2.0
"""The language server process: `python -P -m warplens lsp`, over standard input and output."""

from __future__ import annotations

import asyncio
import gc
import linecache
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from warplens.lsp.features import FEATURES
from warplens.lsp.judging import Judging, ServiceJudging
from warplens.lsp.server import WarplensServer
from warplens.lsp.wire import Gate, Output, listen
from warplens.service.service import Service
from warplens_tools.process.scratch import remove_own

#: From the end of the session to the end of the process.
END_SECONDS = 1.5
#: A tenth of the interpreter's own: an answer takes the message loop several turns.
SWITCH_SECONDS = 0.0005


def main() -> None:
    """Serve one client on standard input and output until it ends the session."""
    serve(Service)


def serve(
    make_service: Callable[[Path], Service], make_judging: Callable[[Service], Judging] = ServiceJudging
) -> None:
    """As `main`, with services made by `make_service`; exits 0 after an orderly shutdown, else 1."""
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
    # What it says of a bad message is said to the client by `wire`, of a failed handler by the connection.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    server = WarplensServer(make_service, make_judging)
    for feature in FEATURES:
        feature.register(server)
    # The text of the methods that attrs wrote for the protocol's classes: ten megabytes, for tracebacks alone.
    linecache.clearcache()
    # The protocol's thousand classes live as long as the process: a collection need not look at them again.
    gc.freeze()
    # An analysis allocates by the ten thousand and leaves few cycles: looking for them each time took a tenth of it.
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    # The message loop waits this long for the interpreter each time that work on another thread holds it.
    sys.setswitchinterval(SWITCH_SECONDS)
    _Session(server).run()


class _Session:
    """One client's session, which ends within `END_SECONDS` however it ends, and takes all it started along."""

    def __init__(self, server: WarplensServer) -> None:
        self._server = server
        self._output = Output(sys.stdout.fileno())
        self._gate = Gate(server.protocol, lambda error: server.report_server_error(error, type(error)))

    def run(self) -> None:
        """Does not return: the exit status is 0 after an orderly shutdown, else 1."""
        self._server.protocol.set_writer(self._output)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        asyncio.run(self._listen())

    async def _listen(self) -> None:
        given_up = await listen(sys.stdin.fileno(), self._gate, lambda: self._server.protocol.exited)
        self._output.close()
        # from inside the loop: its own end would wait for threads that nobody can end
        self._end(0 if self._gate.state == "shut down" and not given_up else 1)

    def _on_signal(self, number: int, _frame: object) -> None:
        """From a thread of its own: the message loop may stand in a write that nobody reads."""
        self._output.close()
        threading.Thread(target=self._end, args=(128 + number,), daemon=True).start()

    def _end(self, status: int) -> None:
        """Kill what runs, remove its folders, and go; what does not end in time is left to the operating system."""
        closing = threading.Thread(target=self._server.close, daemon=True)
        closing.start()
        closing.join(END_SECONDS)
        remove_own()
        sys.stderr.flush()
        os._exit(status)
