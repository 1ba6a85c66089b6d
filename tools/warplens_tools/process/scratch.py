# SPDX-License-Identifier: Apache-2.0
"""Work folders that do not outlive who made them: removed at the end, or by the next one after a kill."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_LOCK = ".lock"
#: Folders without a lock are of a version that made none; nothing takes this long, in seconds.
_OLD = 24 * 3600
#: The lock files that this process holds.
_HELD: set[str] = set()


@contextlib.contextmanager
def scratch_folder(base: Path) -> Iterator[Path]:
    """A fresh folder in `base`, which is made; abandoned ones there are removed first.

    Whoever works in a folder holds a lock on the file beside it, which the kernel lets go of with the process:
    a folder of a living process is never taken for abandoned, in another container neither.

    Raises:
        OSError: `base` cannot be written.
    """
    base.mkdir(parents=True, exist_ok=True)
    remove_abandoned(base)
    handle, name = _locked(base)
    folder = Path(name.removesuffix(_LOCK))
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        _remove(name)
        _HELD.discard(name)
        os.close(handle)


def remove_own() -> None:
    """Remove this process's folders, before it ends without waiting for the threads that work in them."""
    for name in list(_HELD):
        _remove(name)


def _remove(lock: str) -> None:
    shutil.rmtree(lock.removesuffix(_LOCK), ignore_errors=True)
    with contextlib.suppress(OSError):
        Path(lock).unlink()


def remove_abandoned(base: Path) -> None:
    """Remove folders in `base` whose makers are gone."""
    for lock in base.glob(f"*{_LOCK}"):
        with contextlib.suppress(OSError):
            handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(str(lock))
            finally:
                os.close(handle)
    for folder in base.iterdir():
        with contextlib.suppress(OSError):
            locked = folder.with_name(folder.name + _LOCK).exists()
            if not locked and folder.is_dir() and time.time() - folder.stat().st_mtime > _OLD:
                shutil.rmtree(folder, ignore_errors=True)


def _locked(base: Path) -> tuple[int, str]:
    """A lock file that is held, and still there: another process may have cleaned up before it was held."""
    while True:
        handle, name = tempfile.mkstemp(suffix=_LOCK, dir=base)
        _HELD.add(name)
        fcntl.flock(handle, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.stat(name).st_ino == os.fstat(handle).st_ino:  # noqa: PTH116
                return handle, name
        _HELD.discard(name)
        os.close(handle)
