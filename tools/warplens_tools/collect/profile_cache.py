# SPDX-License-Identifier: Apache-2.0
"""What was profiled before, found by the content of everything that could change it.

A key covers the text of the unit and of every file it includes, flags, architecture, the command line, its
environment, the content of files named on it, the request, the profiler, the card and its driver. Where a
build command of the user's own makes the program, the program's bytes stand for its sources.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from warplens_tools.collect.cache import cache_folder
from warplens_tools.decode import from_msgpack

_FORMAT = b"1"
#: Entries kept; the oldest go first. A source-level profile of a large kernel is about 1 MB.
KEPT = 128

T = TypeVar("T")


def content_key(parts: Iterable[bytes | str], contents: Iterable[Path]) -> str:
    """A key of texts and of files' contents; a file that cannot be read counts by its name."""
    digest = hashlib.sha256(_FORMAT)
    for part in parts:
        data = part.encode("utf-8", errors="surrogateescape") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    for path in contents:
        digest.update(_digest(path))
    return digest.hexdigest()


def named_files(arguments: Sequence[str], directory: Path) -> list[Path]:
    """Files that a command line names, relative to the folder it runs in."""
    found = []
    for word in arguments:
        path = directory / word.rpartition("=")[2]
        try:
            if path.is_file():
                found.append(path)
        except (OSError, ValueError):
            continue
    return found


def load_profile(key: str, kind: type[T]) -> T | None:
    """What was stored under the key; None where nothing, or nothing that can be read, was."""
    try:
        return from_msgpack(_path(key).read_bytes(), kind)
    except (OSError, msgspec.MsgspecError):
        return None


def store_profile(key: str, value: object) -> None:
    """Keep `value`; an entry appears whole or not at all."""
    path = _path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        file.write(msgspec.msgpack.encode(value))
    Path(file.name).replace(path)
    kept = sorted(path.parent.glob("*.msgpack"), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in kept[KEPT:]:
        old.unlink(missing_ok=True)


def _path(key: str) -> Path:
    return cache_folder() / "profiles" / f"{key}.msgpack"


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return str(path).encode("utf-8", errors="surrogateescape")
