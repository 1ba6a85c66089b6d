# SPDX-License-Identifier: Apache-2.0
"""Watches workspace folders for clients that cannot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver

#: What a check may depend on.
SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".hh", ".inc")
NAMES = ("compile_commands.json", "warplens.toml", "pyproject.toml")
#: The same as the globs of the protocol.
GLOBS = (*(f"**/*{suffix}" for suffix in SUFFIXES), *(f"**/{name}" for name in NAMES))
#: Every folder costs an inotify watch, of which a user has 8192 by Linux's old default for all programs.
FOLDER_LIMIT = 2000
_SKIPPED = frozenset({".git", ".hg", "node_modules", ".venv", "__pycache__"})


def concerns(path: Path) -> bool:
    """Whether a changed file may change a result."""
    return path.suffix in SUFFIXES or path.name in NAMES


def is_settings(path: Path) -> bool:
    """Whether a file holds settings or flags, rather than code."""
    return path.name in NAMES


def huge(folder: Path, limit: int = FOLDER_LIMIT) -> bool:
    """Whether a tree has too many folders to watch. Links are not followed, so loops end."""
    count = 0
    for _, names, _ in os.walk(folder, followlinks=False):
        count += len(names)
        if count > limit:
            return True
    return False


class Watcher:
    """Calls `changed(path)` on a thread of its own for every file that `concerns` a check."""

    def __init__(self, changed: Callable[[Path], None]) -> None:
        self._changed = changed
        self._observer: BaseObserver | None = None

    def watch(self, folders: list[Path]) -> list[Path]:
        """Watch these folders instead of any before; returns those that are too large to be watched."""
        from watchdog.events import FileSystemEvent, FileSystemEventHandler
        from watchdog.observers import Observer

        changed = self._changed

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if event.is_directory or event.event_type in ("opened", "closed_no_write"):
                    return
                for name in (event.src_path, event.dest_path):
                    path = Path(os.fsdecode(name))
                    if name and concerns(path) and not _SKIPPED & set(path.parts):
                        changed(path)

        self.close()
        large = [folder for folder in folders if huge(folder)]
        observer = Observer()
        for folder in folders:
            if folder not in large:
                observer.schedule(Handler(), str(folder), recursive=True)
        observer.start()
        self._observer = observer
        return large

    def close(self) -> None:
        """Stop watching."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join()
