# SPDX-License-Identifier: Apache-2.0
"""The files of a corpus: what is read, and what is left out with its reason."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from warplens_cutlass.extract.file import DOCUMENT_SUFFIXES, SOURCE_SUFFIXES
from warplens_cutlass.index_settings import IndexSettings
from warplens_cutlass.model import Skipped


class FoundFile(msgspec.Struct, frozen=True):
    """A file that is to be indexed; `path` is relative to the root, with forward slashes."""

    path: str
    size: int
    mtime_ns: int


def walk(root: Path, settings: IndexSettings, skipped: list[Skipped]) -> Iterator[FoundFile]:
    """Files to index below `root`, sorted by folder. What is left out with cause joins `skipped`.

    Linked folders are followed once; a link back into a folder already seen is a loop and is skipped.
    """
    seen: set[tuple[int, int]] = set()
    stack: list[tuple[Path, str, int]] = [(root, "", 0)]
    count = 0
    while stack:
        folder, prefix, depth = stack.pop()
        entries = _entries(folder, prefix, seen, skipped)
        for entry in entries:
            relative = prefix + entry.name
            if _is_folder(entry):
                if entry.name in settings.skipped_folders:
                    continue
                if depth >= settings.max_depth:
                    skipped.append(Skipped(relative, f"deeper than {settings.max_depth} folders"))
                else:
                    stack.append((Path(entry.path), relative + "/", depth + 1))
                continue
            found = _file(entry, relative, settings, skipped)
            if found is not None:
                count += 1
                if count > settings.max_files:
                    skipped.append(Skipped(relative, f"more than {settings.max_files} files"))
                    return
                yield found


def _entries(
    folder: Path, prefix: str, seen: set[tuple[int, int]], skipped: list[Skipped]
) -> list[os.DirEntry[str]]:
    try:
        state = folder.stat()
        if (state.st_dev, state.st_ino) in seen:
            skipped.append(Skipped(prefix.rstrip("/"), "a link to a folder already read"))
            return []
        seen.add((state.st_dev, state.st_ino))
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda e: e.name)
    except OSError as error:
        skipped.append(Skipped(prefix.rstrip("/") or ".", f"unreadable folder: {error.strerror}"))
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _file(
    entry: os.DirEntry[str], relative: str, settings: IndexSettings, skipped: list[Skipped]
) -> FoundFile | None:
    suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122 - a Path per entry triples the walk
    if suffix not in SOURCE_SUFFIXES and suffix not in DOCUMENT_SUFFIXES:
        return None
    if entry.name in settings.skipped_files:
        return None
    try:
        if not entry.is_file():
            skipped.append(Skipped(relative, "not a regular file"))
            return None
        state = entry.stat()
    except OSError as error:
        skipped.append(Skipped(relative, f"unreadable: {error.strerror}"))
        return None
    if state.st_size > settings.max_file_bytes:
        limit = settings.max_file_bytes // 1_000_000
        skipped.append(Skipped(relative, f"larger than {limit} MB"))
        return None
    return FoundFile(relative, state.st_size, state.st_mtime_ns)
