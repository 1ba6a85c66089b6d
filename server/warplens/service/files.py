"""Which files a command means: files as given, folders searched without following loops."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from warplens_tools.errors import InputError

SUFFIXES = frozenset({".cu", ".cuh"})


def expand(paths: Sequence[Path], exclude: Sequence[str]) -> list[Path]:
    """Files named by `paths`: a file stands for itself whatever its suffix, a folder for its `.cu` and `.cuh`.

    Folders whose name begins with a dot are not searched. Symbolic links are followed to files; a folder is
    visited once, so loops end.

    Raises:
        InputError: a path does not exist, or is neither file nor folder.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found.update(dict.fromkeys(sorted(_walk(path, exclude))))
        elif path.is_file():
            found[path] = None
        elif path.exists():
            raise InputError(f"{path} is neither a file nor a folder")
        else:
            raise InputError(f"{path} does not exist")
    return list(found)


def _walk(folder: Path, exclude: Sequence[str]) -> Iterator[Path]:
    seen: set[tuple[int, int]] = set()
    for top, names, files in os.walk(folder, followlinks=True):
        info = os.stat(top)  # noqa: PTH116 - os.walk gives strings
        if (info.st_dev, info.st_ino) in seen:
            names.clear()
            continue
        seen.add((info.st_dev, info.st_ino))
        here = Path(top)
        names[:] = [n for n in sorted(names) if not n.startswith(".") and not excluded(here / n, exclude)]
        for name in files:
            path = here / name
            if path.suffix in SUFFIXES and path.is_file() and not excluded(path, exclude):
                yield path


def excluded(path: Path, globs: Sequence[str]) -> bool:
    """Whether a path matches one of the globs (`**/` prefixes match at any depth, `/**` suffixes below)."""
    text = path.as_posix()
    for glob in globs:
        core = glob.removeprefix("**/").removesuffix("/**")
        if fnmatch.fnmatch(text, glob) or fnmatch.fnmatch(path.name, core) or f"/{core}/" in f"{text}/":
            return True
    return False
