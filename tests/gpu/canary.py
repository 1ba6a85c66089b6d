# SPDX-License-Identifier: Apache-2.0
"""What nothing of a candidate may touch: a file, a variable of the environment, a listening socket.

A candidate whose host code runs where it should not leaves its mark there, or is seen while it looks.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

#: The variable whose value is the secret.
VARIABLE = "WARPLENS_CANARY"
#: Events come from another thread; a mark that was left is seen within this time.
_SETTLE_SECONDS = 0.2


class Canary:
    """Set up for as long as it is entered; `touched` then says what happened to it."""

    def __init__(self) -> None:
        self._secret = secrets.token_hex(16)
        self._home = tempfile.TemporaryDirectory(prefix="canary-")
        self.folder = Path(self._home.name)
        self.folder.chmod(0o777)
        self.file = self.folder / "canary"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._observer, self._seen = Observer(), _Seen()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Canary:
        self.file.write_text(self._secret)
        self.file.chmod(0o666)
        os.environ[VARIABLE] = self._secret
        self._observer.schedule(self._seen, str(self.folder), recursive=True)
        self._observer.start()
        time.sleep(_SETTLE_SECONDS)
        self._seen.events.clear()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._listener.close()
        self._observer.stop()
        self._observer.join()
        os.environ.pop(VARIABLE, None)
        self._home.cleanup()

    @property
    def words(self) -> dict[str, str]:
        """What stands for it in a candidate's text."""
        return {"@CANARY@": str(self.folder), "@PORT@": str(self.port)}

    def touched(self, said: str = "") -> list[str]:
        """What happened since the last call; `said` is all that was heard of the candidates."""
        time.sleep(_SETTLE_SECONDS)
        found, self._seen.events = self._seen.events, []
        return [*found, *(["the secret was told"] if self._secret in said else [])]

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.close()
            self._seen.events.append("the socket was connected to")


class _Seen(FileSystemEventHandler):
    def __init__(self) -> None:
        self.events: list[str] = []

    def on_any_event(self, event: FileSystemEvent) -> None:
        self.events.append(f"{event.event_type} {os.fsdecode(event.src_path)}")
