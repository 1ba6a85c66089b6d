# SPDX-License-Identifier: Apache-2.0
"""Files that tests build, kept from one run of the suite to the next under the digest of all that they rest on.

Beside the caches of the product (`WARPLENS_CACHE`), so that whoever removes those builds everything anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import filelock

from warplens_tools.collect.cache import cache_folder

#: Seconds after which what no run has asked for is removed.
_OLD = 14 * 24 * 3600


def digest_of(*rests_on: str | bytes | Path) -> str:
    """Of texts, bytes, and the contents of files and of folders' files."""
    digest = hashlib.sha256()
    for part in rests_on:
        for data in _contents(part):
            digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


def kept(name: str, digest: str, make: Callable[[Path], object]) -> Path:
    """The file that `make` writes to the path it gets: made once for a digest, whichever process asks first."""
    folder = cache_folder() / "tests"
    found = folder / f"{digest}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / f"{digest}.lock"):
        if not found.is_file():
            _remove_old(folder)
            with tempfile.TemporaryDirectory(dir=folder) as work:
                made = Path(work) / name
                make(made)
                made.replace(found)
        os.utime(found)
    return found


@functools.cache
def version_of(program: str) -> str:
    """What a compiler says of itself, and where it is."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return f"{program}\n{said}"


def _contents(part: str | bytes | Path) -> Iterable[bytes]:
    if isinstance(part, Path):
        files = sorted(p for p in part.rglob("*") if p.is_file()) if part.is_dir() else [part]
        for file in files:
            if file.suffix != ".pyc":
                yield file.name.encode()
                yield file.read_bytes()
    else:
        yield part if isinstance(part, bytes) else part.encode()


@functools.cache
def _remove_old(folder: Path) -> None:
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            if file.is_file() and time.time() - file.stat().st_mtime > _OLD:
                file.unlink()
