# SPDX-License-Identifier: Apache-2.0
"""A user's project copied for a build that wants to write in it, with one file replaced."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from warplens_tools.errors import InputError

#: Version control and caches; nothing is built from them.
_LEFT_OUT = {".git", ".hg", ".svn", ".cache", ".venv", "node_modules", "__pycache__", ".warplens"}
#: Bytes: a project's sources and objects, not its data.
MOST_BYTES = 4 << 30


def copy_project(root: Path, to: Path, *, without: Path | None = None) -> Path:
    """Copy `root` to `to` with times and links, without version control and CMake's build folders (which know their
    own place and could not be used elsewhere), and without the folder `without`.

    Raises:
        InputError: it is not there, or larger than `MOST_BYTES`.
    """
    if not root.is_dir():
        raise InputError(f"the project folder {root} does not exist")
    size = 0

    def left_out(folder: str, names: list[str]) -> set[str]:
        nonlocal size
        dropped = {n for n in names if n in _LEFT_OUT or (Path(folder) / n / "CMakeCache.txt").exists()}
        for name in set(names) - dropped:
            path = Path(folder) / name
            # sockets, pipes and links that lead nowhere cannot be copied
            if not path.exists() or not (path.is_file() or path.is_dir()) or path == without:
                dropped.add(name)
            elif path.is_file() and not path.is_symlink():
                size += path.stat().st_size
        if size > MOST_BYTES:
            raise InputError(
                f"{root} is too large to be copied for a build",
                remedy="name a smaller folder than the workspace in the build command, or use {source}",
            )
        return dropped

    try:
        shutil.copytree(root, to, symlinks=True, ignore=left_out)
    except (OSError, shutil.Error) as error:
        raise InputError(f"{root} cannot be copied for a build: {error}") from error
    _follow_links_out(root, to)
    return to


def _follow_links_out(root: Path, copy: Path) -> None:
    """Links within the project lead to the copy's own files; a build must not write through one into the user's."""
    for folder, folders, files in os.walk(copy):
        for name in (*folders, *files):
            link = Path(folder) / name
            if not link.is_symlink():
                continue
            target = Path(os.path.realpath(root / link.relative_to(copy)))
            if target.is_relative_to(root):
                link.unlink()
                link.symlink_to(os.path.relpath(copy / target.relative_to(root), link.parent))
