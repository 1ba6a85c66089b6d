# SPDX-License-Identifier: Apache-2.0
"""`--watch`: does a thing again whenever a source file changes."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import strftime

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from warplens_tools.errors import WarplensError

_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".hh", ".toml", "compile_commands.json")
#: Seconds of quiet after a change: editors and checkouts write several files.
_SETTLED = 0.2
#: Seconds that the observer's threads have to end; they are daemons, and nothing of theirs is lost.
_PATIENCE = 5.0


class _Changes(FileSystemEventHandler):
    def __init__(self) -> None:
        # a signal raises in the midst of whatever the main thread does: a `Queue` would keep its lock, and the
        # observer, which puts, would never end
        self.paths: queue.SimpleQueue[str] = queue.SimpleQueue()

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Note a changed source or settings file."""
        for path in (event.src_path, event.dest_path):
            name = path if isinstance(path, str) else bytes(path).decode(errors="replace")
            if event.event_type in ("created", "modified", "moved", "deleted") and name.endswith(_SUFFIXES):
                self.paths.put(name)


def watch_files(folders: Sequence[Path], action: Callable[[], int]) -> int:
    """Run `action` now and after every change below `folders`, until a signal ends it.

    What is wrong in one round is said, and the next round tried.
    """
    changes = _Changes()
    observer = Observer()
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        observer.schedule(changes, str(folder), recursive=True)
    observer.start()
    try:
        while True:
            _round(action)
            sys.stderr.write(f"warplens: {strftime('%H:%M:%S')} waiting for a change; Ctrl-C ends it\n")
            changes.paths.get()
            while True:
                try:
                    changes.paths.get(timeout=_SETTLED)
                except queue.Empty:
                    break
    finally:
        observer.stop()
        observer.join(_PATIENCE)


def _round(action: Callable[[], int]) -> None:
    try:
        action()
        sys.stdout.flush()
    except WarplensError as error:
        from warplens.cli.main import print_error

        print_error(error)
