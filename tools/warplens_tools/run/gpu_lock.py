# SPDX-License-Identifier: Apache-2.0
"""One user of a GPU at a time, across processes: who else measures on it would be measured too. Those who only compare
may share it among themselves."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import filelock
import msgspec

from warplens_tools.decode import from_json
from warplens_tools.errors import TimeLimitError
from warplens_tools.process.task import UNATTENDED, Task

#: Seconds between tries: a card that several lanes share rests half of that at each change of hands.
_POLL = 0.005
#: Seconds between looks at who has it, which hold up whoever tries meanwhile.
_LOOK = 0.5


class Holder(msgspec.Struct, frozen=True):
    """Who has a GPU."""

    pid: int
    what: str
    #: Seconds since the epoch.
    since: float


def lock_folder() -> Path:
    """Where locks lie: `WARPLENS_LOCKS`, else the user's runtime folder, else one of the temporary ones."""
    chosen = os.environ.get("WARPLENS_LOCKS")
    if chosen:
        return Path(chosen)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "warplens" if runtime else Path(tempfile.gettempdir()) / f"warplens-{os.getuid()}"


def holder(uuid: str) -> Holder | None:
    """Who holds the GPU's lock now, as far as it was noted; None if nobody does."""
    if not _path(uuid).exists():
        return None
    lock = filelock.FileLock(_path(uuid))
    with contextlib.suppress(filelock.Timeout), lock.acquire(timeout=0):
        return None
    try:
        return from_json(_note(uuid).read_bytes(), Holder)
    except (OSError, msgspec.MsgspecError):
        return Holder(0, "another process", 0.0)


def said(who: Holder) -> str:
    """Who has a GPU, and for how long, in words."""
    if not who.pid:
        return who.what
    return f"{who.what} (process {who.pid}) for {max(0.0, time.time() - who.since):.0f} s"


@contextlib.contextmanager
def gpu_lock(
    uuid: str, what: str, *, shared: bool = False, timeout: float | None = None, task: Task = UNATTENDED
) -> Iterator[None]:
    """Hold the GPU's lock. The kernel gives it back when the process dies, however it dies.

    `shared`: beside others who share it, and nobody who has it alone. Whoever waits to have it alone comes before those
    who begin to share it later, so that sharing never keeps it from them for long.

    Raises:
        TimeLimitError: another process kept it for `timeout` seconds; the message names it.
        CancelledError: as named.
    """
    path = lock_file(uuid)
    lock = _Shared(path) if shared else filelock.FileLock(path)
    until = None if timeout is None else time.monotonic() + timeout
    with contextlib.ExitStack() as held:
        with _acquired(filelock.FileLock(path.with_suffix(".next")), uuid, until, task):
            held.enter_context(_acquired(lock, uuid, until, task))
        try:
            _note(uuid).write_bytes(msgspec.json.encode(Holder(os.getpid(), what, time.time())))
            yield
        finally:
            with contextlib.suppress(OSError):
                _note(uuid).unlink()


class _Lock(Protocol):
    """As filelock's are: raises its `Timeout` where it cannot be had within so many seconds."""

    def acquire(self, timeout: float) -> object: ...

    def release(self) -> None: ...


class _Shared:
    """The same file's lock, shared."""

    def __init__(self, path: Path) -> None:
        self._path, self._held = path, -1

    def acquire(self, timeout: float) -> object:
        del timeout
        self._held = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # whoever had it may have removed the file with it: then this is nobody's lock
            gone = os.fstat(self._held).st_nlink == 0
        except OSError:
            gone = True
        if gone:
            os.close(self._held)
            raise filelock.Timeout(str(self._path))
        return self

    def release(self) -> None:
        os.close(self._held)


@contextlib.contextmanager
def _acquired(lock: _Lock, uuid: str, until: float | None, task: Task) -> Iterator[None]:
    """Have it, trying again and again, and saying who has the GPU meanwhile."""
    looked = -math.inf
    while True:
        task.check()
        try:
            lock.acquire(timeout=0)
            break
        except filelock.Timeout:
            now = time.monotonic()
            late = until is not None and now >= until
            if late or now - looked >= _LOOK:
                looked, who = now, holder(uuid)
                named = said(who) if who is not None else "another process"
                if late:
                    raise TimeLimitError(f"the GPU is in use by {named}") from None
                task.say(f"waiting for the GPU, in use by {named}", None)
            time.sleep(_POLL)
    try:
        yield
    finally:
        lock.release()


def lock_file(uuid: str) -> Path:
    """The file whose lock it is (flock), its folder made: for a process that cannot import this."""
    path = _path(uuid)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _path(uuid: str) -> Path:
    return lock_folder() / f"gpu-{uuid or 'any'}.lock"


def _note(uuid: str) -> Path:
    return lock_folder() / f"gpu-{uuid or 'any'}.json"
