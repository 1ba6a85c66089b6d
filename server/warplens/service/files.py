# SPDX-License-Identifier: Apache-2.0
"""Which files a command means: files as given, folders searched without following loops."""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from warplens.service.report import Skipped
from warplens_tools.errors import InputError
from warplens_tools.toolchain.compile_commands import find_command

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SUFFIXES = frozenset({".cu", ".cuh"})
#: Headers that a search takes where they hold a kernel.
HEADER_SUFFIXES = frozenset({".h", ".hh", ".hpp", ".hxx", ".inl", ".inc", ".ipp", ".tpp"})
#: What a file that is named may be: CUDA is also written in files that C++ compilers and includes take.
NAMED_SUFFIXES = SUFFIXES | {
    *(".h", ".hh", ".hpp", ".hxx", ".h++", ".inl", ".inc", ".ipp", ".tpp", ".impl"),
    *(".c", ".cc", ".cpp", ".cxx", ".c++", ".C"),
}
IGNORE_FILE = ".gitignore"
_MOST_BYTES = 1_000_000
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
#: Not a declaration, and not a macro's own definition or a test for it.
_KERNEL = re.compile(
    rb"^(?![ \t]*#[ \t]*(?:define[ \t]+__|if|elif))[^\n]*\b__global__\b[^;{}]*\{", re.MULTILINE
)


class Found(msgspec.Struct, frozen=True):
    """The files that a command means, each once, and what the search left out."""

    files: tuple[Path, ...]
    skipped: tuple[Skipped, ...] = ()


def expand(paths: Sequence[Path], exclude: Sequence[str]) -> list[Path]:
    """The files of `find`."""
    return list(find(paths, exclude).files)


def sources(folder: Path, exclude: Sequence[str], *, most: int) -> list[Path]:
    """All C++ and CUDA files below a folder, found as `find` finds them; `most` end the search."""
    return _Search(folder, exclude, every=True, most=most).files()


def shown(path: Path) -> Path:
    """A file by the shorter of its names: from the current folder where it lies below that."""
    with contextlib.suppress(ValueError, OSError):
        return path.relative_to(Path.cwd())
    return path


def has_kernel(path: Path) -> bool:
    """Whether a file holds the definition of a kernel, as far as its first megabyte tells."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError:
        return False
    return b"__global__" in data and _KERNEL.search(_COMMENT.sub(b"", data)) is not None


def find(paths: Sequence[Path], exclude: Sequence[str]) -> Found:
    """Files named by `paths`: a source file stands for itself, a folder for its `.cu` and `.cuh`, for headers
    that hold kernels, and for C and C++ sources with kernels that are built as CUDA.

    Folders whose name begins with a dot, what a `.gitignore` leaves out, and what `exclude` names are not
    searched. Symbolic links are followed to files; a folder is visited once, so loops end, and a file that
    two names lead to is taken by the first.

    Raises:
        InputError: a path does not exist, is neither file nor folder, or is a file of another kind.
    """
    found: dict[str, Path] = {}
    skipped: list[Skipped] = []
    for path in paths:
        if path.is_dir():
            search = _Search(path, exclude)
            files = search.files()
            skipped += search.skipped
        elif path.is_file():
            require_source(path)
            files = [path]
        elif path.exists():
            raise InputError(f"{path} is neither a file nor a folder")
        else:
            raise InputError(f"{path} does not exist")
        for file in files:
            found.setdefault(os.path.realpath(file), file)
    return Found(tuple(found.values()), tuple(dict.fromkeys(skipped)))


def require_source(path: Path) -> None:
    """Refuse a file whose name says that it is no C++ source.

    Raises:
        InputError: its suffix is none of `NAMED_SUFFIXES`.
    """
    if path.suffix not in NAMED_SUFFIXES:
        raise InputError(
            f"{path} is not a CUDA file", remedy="name a .cu or .cuh file, or a C++ source or header"
        )


class _Search:
    """One walk through a folder."""

    def __init__(
        self, folder: Path, exclude: Sequence[str], *, every: bool = False, most: int | None = None
    ) -> None:
        #: Whether all C++ is sought, not CUDA alone.
        self._every = every
        self._left = most
        self.skipped: list[Skipped] = []
        self._folder = folder
        self._exclude = exclude
        self._seen: set[tuple[int, int]] = set()
        rules = _rules_above(Path(os.path.abspath(folder)))  # noqa: PTH100
        # a folder that was named is searched although git ignores it
        self._rules = () if _ignored(folder, rules, folder=True) else rules

    def files(self) -> list[Path]:
        """The CUDA files below, in order of their names."""
        return sorted(self._below(self._folder, self._rules))

    def _below(self, folder: Path, rules: Rules) -> list[Path]:
        found: list[Path] = []
        try:
            info = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self.skipped.append(Skipped(str(folder), f"the system ({error.strerror})"))
            return found
        if (info.st_dev, info.st_ino) in self._seen:
            return found
        self._seen.add((info.st_dev, info.st_ino))
        rules = (*rules, *_rules_in(folder))
        for entry in entries:
            path = folder / entry.name
            kind = self._kind(path, entry)
            if self._left == 0:
                break
            if kind == "folder":
                if not entry.name.startswith(".") and self._wanted(path, rules, folder=True):
                    found += self._below(path, rules)
            elif kind == "file" and self._is_sought(path) and self._wanted(path, rules, folder=False):
                found.append(path)
                self._left = None if self._left is None else self._left - 1
        return found

    def _is_sought(self, path: Path) -> bool:
        if self._every:
            return path.suffix in NAMED_SUFFIXES
        if path.suffix in SUFFIXES:
            return True
        if path.suffix in HEADER_SUFFIXES:
            return has_kernel(path)
        return path.suffix in NAMED_SUFFIXES and has_kernel(path) and _is_built_as_cuda(path)

    def _kind(self, path: Path, entry: os.DirEntry[str]) -> Literal["folder", "file", "neither"]:
        """What a name leads to; a link that leads round in a circle, or where nobody may look, is skipped."""
        try:
            return "folder" if entry.is_dir() else "file" if entry.is_file() else "neither"
        except OSError as error:
            if path.suffix in SUFFIXES:
                self.skipped.append(Skipped(str(path), f"the system ({error.strerror})"))
            return "neither"

    def _wanted(self, path: Path, rules: Rules, *, folder: bool) -> bool:
        name = f"{path}/" if folder else str(path)
        if excluded(path, self._exclude):
            self.skipped.append(Skipped(name, "the setting exclude"))
        elif _ignored(path, rules, folder=folder):
            self.skipped.append(Skipped(name, IGNORE_FILE))
        else:
            return True
        return False


def _is_built_as_cuda(path: Path) -> bool:
    """Whether a C or C++ source is CUDA by its name (`scan.cu.cc`) or by the command that builds it (`-x cu`)."""
    if ".cu" in path.suffixes:
        return True
    try:
        command = find_command(path)
    except InputError:
        return False  # Whoever checks a file of that folder is told.
    words = command.words if command is not None else ()
    return any(pair in (("-x", "cu"), ("-x", "cuda")) for pair in itertools.pairwise(words)) or bool(
        {"-xcu", "-xcuda", "--x=cu", "-x=cu"} & set(words)
    )


#: Folders with the rules that their `.gitignore` gives for what is below, outermost first.
Rules = tuple[tuple[Path, "GitIgnoreSpec"], ...]


def _ignored(path: Path, rules: Rules, *, folder: bool) -> bool:
    """As git decides: the innermost file that says anything of the path counts."""
    absolute = os.path.abspath(path)  # noqa: PTH100
    for place, spec in reversed(rules):
        name = os.path.relpath(absolute, place) + ("/" if folder else "")
        include = spec.check_file(name).include
        if include is not None:
            return bool(include)
    return False


def _rules_in(folder: Path) -> Rules:
    file = folder / IGNORE_FILE
    if not file.is_file():
        return ()
    from pathspec import GitIgnoreSpec

    try:
        lines = file.read_text("utf-8", errors="replace").splitlines()
        return ((Path(os.path.abspath(folder)), GitIgnoreSpec.from_lines(lines)),)  # noqa: PTH100
    except (OSError, ValueError):
        return ()


def _rules_above(folder: Path) -> Rules:
    """The rules of the folders above, up to the root of the repository; none where there is no repository."""
    above: list[Path] = []
    for place in (folder, *folder.parents):
        if place != folder:
            above.append(place)
        if (place / ".git").exists():
            return tuple(rule for each in reversed(above) for rule in _rules_in(each))
    return ()


def excluded(path: Path, globs: Sequence[str]) -> bool:
    """Whether a path matches one of the globs (`**/` prefixes match at any depth, `/**` suffixes below)."""
    text = path.as_posix()
    for glob in globs:
        core = glob.removeprefix("**/").removesuffix("/**")
        if fnmatch.fnmatch(text, glob) or fnmatch.fnmatch(path.name, core) or f"/{core}/" in f"{text}/":
            return True
    return False
