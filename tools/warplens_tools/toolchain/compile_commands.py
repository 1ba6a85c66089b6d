# SPDX-License-Identifier: Apache-2.0
"""Finds a unit's entry in a `compile_commands.json`. Reads only; never runs the build."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from warplens_tools.decode import from_json
from warplens_tools.errors import InputError

NAME = "compile_commands.json"
_BUILD_FOLDERS = ("build", "out", "cmake-build-*", "build-*", "build/*", "out/*")
_MAX_RESPONSE_BYTES = 1 << 20


class Command(msgspec.Struct, frozen=True):
    """One entry: the words of the command (response files expanded), and where it is run."""

    database: str
    directory: str
    words: tuple[str, ...]


class _Entry(msgspec.Struct, frozen=True):
    file: str
    directory: str = ""
    arguments: tuple[str, ...] | None = None
    command: str | None = None


def find_command(unit: Path, *, root: Path | None = None, database: Path | None = None) -> Command | None:
    """The command that builds `unit`, from the nearest database that has one.

    Looks in the unit's folder and its parents up to `root` (default: the file system's), and in the usual
    build folders below each; with `database`, the file or its folder, there alone.

    Raises:
        InputError: a database that was found cannot be read.
    """
    if database is not None:
        return _command_in(database / NAME if database.is_dir() else database, unit)
    found = (_command_in(place, unit) for place in _databases(unit.parent, root))
    return next((command for command in found if command is not None), None)


def listed_units(path: Path, *, root: Path | None = None, database: Path | None = None) -> list[Path]:
    """The units of the database that counts for `path`, see `find_command`; none where there is no database.

    Raises:
        InputError: the database cannot be read.
    """
    if database is not None:
        found = [database / NAME if database.is_dir() else database]
    else:
        found = list(_databases(path.parent, root))[:1]
    return [one.parent / e.directory / e.file for one in found for e in _entries(one, _stamp(one))]


def _command_in(database: Path, unit: Path) -> Command | None:
    for entry in _entries(database, _stamp(database)):
        directory = database.parent / entry.directory
        if _same_file(directory / entry.file, unit):
            words = entry.arguments or _split(entry.command or "", database)
            return Command(str(database), str(directory), expand_responses(words, directory))
    return None


def _split(command: str, database: Path) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise InputError(f"a command in {database} does not parse: {error}") from error


def _stamp(database: Path) -> int:
    try:
        return database.stat().st_mtime_ns
    except OSError as error:
        raise InputError(f"{database} cannot be read: {error.strerror or error}") from error


def _databases(folder: Path, root: Path | None) -> Iterator[Path]:
    for place in (folder, *folder.parents):
        candidates = [place / NAME]
        for pattern in _BUILD_FOLDERS:
            candidates += sorted(place.glob(f"{pattern}/{NAME}"))
        yield from (c for c in candidates if c.is_file())
        if place == root or place == Path.home():
            return


@functools.lru_cache(maxsize=8)
def _entries(database: Path, _stamp: int) -> tuple[_Entry, ...]:
    try:
        return from_json(database.read_bytes(), tuple[_Entry, ...])
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(
            f"{database} cannot be read: {error}", remedy="regenerate it, or set the flags in warplens.toml"
        ) from error


def _same_file(first: Path, second: Path) -> bool:
    if first.name != second.name:
        # A link of another name to the same file is not worth a stat of every entry.
        return False
    return os.path.normpath(first) == os.path.normpath(second) or (
        first.exists() and second.exists() and first.samefile(second)
    )


def expand_responses(words: tuple[str, ...], directory: Path) -> tuple[str, ...]:
    """The words with `@file`, `--options-file file` and `-optf file` replaced by what the files hold."""
    expanded: list[str] = []
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        if name in ("--options-file", "-optf"):
            for file in (value or next(rest, "")).split(","):
                expanded += _response(directory / file)
        elif word.startswith("@") and (directory / word[1:]).is_file():
            expanded += _response(directory / word[1:])
        else:
            expanded.append(word)
    return tuple(expanded)


def _response(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return shlex.split(file.read(_MAX_RESPONSE_BYTES), comments=True)
    except (OSError, ValueError) as error:
        raise InputError(f"the options file {path} cannot be read: {error}") from error
