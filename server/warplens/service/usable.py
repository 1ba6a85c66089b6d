# SPDX-License-Identifier: Apache-2.0
"""Settings that are well formed and yet mean nothing: paths that lead nowhere, checks that do not exist."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from warplens.read_settings import line_of
from warplens.service.suppression import require_known
from warplens.settings import Loaded, Problem, Settings
from warplens_tools.errors import InputError


def with_usable_values(loaded: Loaded) -> Loaded:
    """The settings with paths made absolute; those that lead nowhere count as not set, and are problems."""
    settings, root = loaded.settings, Path(loaded.root)
    changes: dict[str, Any] = {}
    wrong: list[tuple[str, str]] = []
    for key, value, is_right in _paths(settings):
        path = Path(os.path.normpath(root / Path(value).expanduser()))
        name = key.replace("-", "_")
        changes[name] = str(path) if is_right(path) else ""
        if not is_right(path):
            wrong.append((key, f"{key}: there is no {value} (looked at {path})"))
    wrong += [("program", text) for text in _programs(settings, root)]
    try:
        require_known(settings.ignore, "ignore")
    except InputError as error:
        wrong.append(("ignore", f"{error}" + (f"; {error.remedy}" if error.remedy else "")))
    if not changes and not wrong:
        return loaded
    return msgspec.structs.replace(
        loaded,
        settings=msgspec.structs.replace(settings, **changes),
        problems=(*loaded.problems, *(_problem(loaded, key, text) for key, text in wrong)),
    )


def _paths(settings: Settings) -> Iterator[tuple[str, str, Any]]:
    if settings.cuda_path:
        yield "cuda-path", settings.cuda_path, Path.is_dir
    if settings.compile_commands:
        yield "compile-commands", settings.compile_commands, Path.exists


def _programs(settings: Settings, root: Path) -> Iterator[str]:
    for program in settings.program:
        if program.directory and not (root / program.directory).is_dir():
            yield f"program.directory of {program.source}: there is no folder {root / program.directory}"


def _problem(loaded: Loaded, key: str, text: str) -> Problem:
    file = Path(loaded.file) if loaded.file else None
    line = line_of(file, key) if file is not None else 1
    return Problem(f"{loaded.file or 'the settings'}: {text}", loaded.file, line)
