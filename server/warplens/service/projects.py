# SPDX-License-Identifier: Apache-2.0
"""Which files belong to the program of a file, and what they say of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from warplens.service.files import excluded, sources
from warplens.settings import Loaded
from warplens_tools.cuda.project import MAX_FILES, Project, real_path
from warplens_tools.errors import InputError
from warplens_tools.toolchain.compile_commands import listed_units

#: What stands at the top of a workspace, and at the top of what is built as one.
_WORKSPACE_MARKS = (".git", "warplens.toml", "compile_commands.json")
_BUILD_MARKS = ("CMakeLists.txt", "Makefile", "makefile", "meson.build", "setup.py", "pyproject.toml")
#: Seconds that a listing of a folder holds.
_FRESH_SECONDS = 10.0


class Projects:
    """The projects of one service by their folder, listed anew when they are old. Safe to use from several threads."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._lock = threading.Lock()
        self._known: dict[tuple[Path, tuple[str, ...]], tuple[float, Project]] = {}

    def of(self, path: Path, loaded: Loaded, include_dirs: Sequence[Path] = ()) -> Project:
        """The project that a file belongs to: the files of its folder, and the units of its compile_commands.json."""
        folder = project_folder(path, self._root)
        exclude = tuple(loaded.settings.exclude)

        def candidates() -> list[Path]:
            found = sources(folder, exclude, most=MAX_FILES + 1)
            return found + [u for u in _units(path, loaded) if not excluded(u, exclude)]

        key = (folder, (*exclude, *map(str, include_dirs)))
        with self._lock:
            now = self._clock()
            made, project = self._known.get(key, (0.0, None))
            if project is None or now - made > _FRESH_SECONDS:
                project = Project(candidates, include_dirs)
                self._known[key] = (now, project)
            project.with_file(path)
            return project

    def forget(self) -> None:
        """Read everything anew: files changed."""
        with self._lock:
            self._known.clear()


def project_folder(path: Path, root: Path) -> Path:
    """The folder whose files may belong to the program of `path`.

    That is the workspace: the nearest folder up to `root` with a mark of one, else `root`. Of a file that is not
    below `root`, and where `root` is everything the user has, it is what is built as one, else the file's folder.
    """
    inside = path.is_relative_to(root) and root not in (Path.home(), Path(root.anchor))
    for folder in path.parents:
        if any((folder / mark).exists() for mark in _WORKSPACE_MARKS):
            return folder
        if inside and folder == root:
            return root
    built = (f for f in path.parents if any((f / mark).exists() for mark in _BUILD_MARKS))
    return next(built, path.parent)


def compiled_in(path: Path, project: Project, loaded: Loaded) -> Path:
    """The unit that a `.cu` file is compiled in: itself, or the one that it is a part of.

    It is a part of a unit of its folder or one above that includes it and is included by nobody (a unity build), of one
    that the database lists where there are several; not if the database lists it, or what includes it stands
    elsewhere, such as a test of it.
    """
    found = [unit for unit in project.units_including(path) if path.is_relative_to(unit.absolute().parent)]
    whole = [unit for unit in found if not project.units_including(unit)]
    listed = {real_path(unit) for unit in _units(path, loaded)} if whole else set()
    if not whole or real_path(path) in listed:
        return path
    return next((unit for unit in whole if real_path(unit) in listed), whole[0]).absolute()


def _units(path: Path, loaded: Loaded) -> list[Path]:
    try:
        return listed_units(path, root=loaded.bound, database=loaded.settings.database)
    except InputError:  # the check of the saved file says so
        return []
